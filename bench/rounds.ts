/**
 * Ours against its floor in the same run. A machine's speed varies from second to second, so compared works alternate in short slices, and
 * ratios are taken within a round: between adjacent slices.
 */
import { type Spread, spread } from './spread.js'

/** Performs `n` operations, in its own way (one by one, or concurrently), and resolves when all are done. */
export type Work = (n: number) => Promise<void>

export interface Effort {
  /** Counted rounds; an additional first one is discarded. */
  readonly rounds: number
  /** Milliseconds per slice; the number of operations in a slice is determined beforehand. */
  readonly slice: number
  /** This many operations in every slice instead: for tests of the harness itself, whose times mean nothing. */
  readonly fixed?: number
}

/** Operations per second of each work, by round. */
export type Rates<K extends string> = Readonly<Record<K, readonly number[]>>

export async function takeTurns<K extends string>(
  works: Readonly<Record<K, Work>>,
  { rounds, slice, fixed }: Effort,
): Promise<Rates<K>> {
  const names = Object.keys(works) as K[]
  const counts = new Map<K, number>()
  for (const name of names) counts.set(name, fixed ?? (await calibrate(works[name], slice)))
  const rates = Object.fromEntries(names.map((name) => [name, []])) as unknown as Record<K, number[]>
  for (let round = -1; round < rounds; round++) {
    // Every other round runs in reverse order: the second work must not always pay for the effects of the first.
    for (const name of round % 2 === 0 ? names : names.toReversed()) {
      const count = counts.get(name) ?? 1
      const seconds = (await timed(works[name], count)) / 1000
      if (round >= 0) rates[name].push(count / seconds)
    }
  }
  return rates
}

/** `of` divided by `by`, within each round. */
export function ratio(of: readonly number[], by: readonly number[]): Spread {
  return spread(of.map((value, round) => value / (by[round] ?? Number.NaN)))
}

/**
 * Number of operations that fill a slice: after a warm-up slice, the number doubles until it takes a quarter of a slice. The fastest of
 * three tries counts: otherwise a process preempted for a moment would settle on far too few operations, and so short a slice would measure
 * the effects of its predecessor.
 */
async function calibrate(work: Work, slice: number): Promise<number> {
  // The first calls pay for connecting and compiling.
  for (const start = performance.now(); performance.now() < start + slice; ) await work(1)
  for (let count = 1; ; count *= 2) {
    let took = Number.POSITIVE_INFINITY
    for (let tries = 0; tries < 3 && took >= slice / 4; tries++)
      took = Math.min(took, await timed(work, count))
    if (took >= slice / 4) return Math.max(1, Math.round((count * slice) / took))
  }
}

async function timed(work: Work, n: number): Promise<number> {
  const start = performance.now()
  await work(n)
  return performance.now() - start
}
