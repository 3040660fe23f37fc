/** Suggests the known word the user probably meant. */

/** @returns the word of `known` closest to `word`; undefined: none is close enough to be a typo. */
export function nearest(word: string, known: Iterable<string>): string | undefined {
  let best: string | undefined
  let least = Math.floor(word.length * 0.4)
  for (const candidate of known) {
    const steps = distance(word.toLowerCase(), candidate.toLowerCase())
    if (steps > least || (best !== undefined && steps === least)) continue
    best = candidate
    least = steps
  }
  return best
}

/** Suffix for an error message. */
export function didYouMean(word: string, known: Iterable<string>): string {
  const meant = nearest(word, known)
  return meant === undefined ? '' : `; did you mean '${meant}'?`
}

/** Edit distance: letters wrong, missing, extra or swapped with a neighbour (Damerau–Levenshtein without overlaps). */
function distance(a: string, b: string): number {
  // A word this much longer is no typo; skip the comparison.
  if (Math.abs(a.length - b.length) > a.length) return Number.POSITIVE_INFINITY
  let before: number[] = []
  let above = Array.from({ length: b.length + 1 }, (_, j) => j)
  for (let i = 1; i <= a.length; i++) {
    const row = [i]
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1] ? 0 : 1
      const swapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]
      row[j] = Math.min(
        (above[j] ?? 0) + 1,
        (row[j - 1] ?? 0) + 1,
        (above[j - 1] ?? 0) + same,
        swapped ? (before[j - 2] ?? 0) + 1 : Number.POSITIVE_INFINITY,
      )
    }
    before = above
    above = row
  }
  return above[b.length] ?? Number.POSITIVE_INFINITY
}
