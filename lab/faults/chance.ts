/** Seeded random numbers: the same seed gives the same numbers (mulberry32). */
export interface Chance {
  /** In [0, 1). */
  next(): number
  /** An integer below `n`. */
  below(n: number): number
  between(least: number, most: number): number
  pick<T>(from: readonly T[]): T
  /** Another generator; later draws from this one do not affect its numbers. */
  fork(): Chance
}

export function chance(seed: number): Chance {
  let state = seed >>> 0
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0
    let x = Math.imul(state ^ (state >>> 15), 1 | state)
    x = (x + Math.imul(x ^ (x >>> 7), 61 | x)) ^ x
    return ((x ^ (x >>> 14)) >>> 0) / 2 ** 32
  }
  const below = (n: number) => Math.floor(next() * n)
  return {
    next,
    below,
    between: (least, most) => least + next() * (most - least),
    pick: (from) => {
      const one = from[below(from.length)]
      if (one === undefined) throw new RangeError('there is nothing to pick from')
      return one
    },
    fork: () => chance(below(2 ** 32)),
  }
}
