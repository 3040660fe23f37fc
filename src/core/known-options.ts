/** No option is silently ignored: an option that nothing reads is a mistake, and a misspelt safety option is a dangerous one. */
import { describe } from './name.js'

/** @param whose as in a message: `redis()` @throws TypeError for an unknown key, with the nearest known one */
export function checkKnown(whose: string, given: object, known: readonly string[]): void {
  for (const key of Object.keys(given)) {
    if (known.includes(key)) continue
    const nearest = findNearest(key, known)
    const meant = nearest === undefined ? '; ' : `; did you mean ${nearest}? `
    throw new TypeError(`${whose}: unknown option ${describe(key)}${meant}known are ${known.join(', ')}`)
  }
}

/** The name that needs the fewest changes, if those are at most half of the word. */
function findNearest(word: string, known: readonly string[]): string | undefined {
  let best: { readonly name: string; readonly away: number } | undefined
  for (const name of known) {
    const away = changes(word.toLowerCase(), name.toLowerCase())
    if (best === undefined || away < best.away) best = { name, away }
  }
  return best !== undefined && best.away <= Math.max(1, Math.floor(word.length / 2)) ? best.name : undefined
}

/** The Levenshtein distance. */
function changes(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1] ? 0 : 1
      next.push(Math.min((next[j - 1] ?? 0) + 1, (row[j] ?? 0) + 1, (row[j - 1] ?? 0) + same))
    }
    row = next
  }
  return row[b.length] ?? 0
}
