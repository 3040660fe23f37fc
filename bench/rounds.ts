/**
 * Ours against its floor in the same run. A machine is faster in one second than in the next, so whatever is compared
 * takes turns in short slices, and ratios are taken inside a round: between slices that ran next to each other.
 */
import { type Spread, spread } from './spread.js'

/** Does something `n` times, in its own way (one by one, many at once), and resolves when all of it is done. */
export type Work = (n: number) => Promise<void>

export interface Effort {
  /** Rounds that count; one more goes before them and is thrown away. */
  readonly rounds: number
  /** Milliseconds of one slice, on which its number of operations is settled beforehand. */
  readonly slice: number
  /** This many operations in every slice instead: for tests of the harness itself, whose times mean nothing. */
  readonly fixed?: number
}

/** Operations per second of each work, round by round. */
export type Rates<K extends string> = Readonly<Record<K, readonly number[]>>

export async function takeTurns<K extends string>(
  works: Readonly<Record<K, Work>>,
  { rounds, slice, fixed }: Effort,
): Promise<Rates<K>> {
  const names = Object.keys(works) as K[]
  const counts = new Map<K, number>()
  for (const name of names) counts.set(name, fixed ?? (await settle(works[name], slice)))
  const rates = Object.fromEntries(names.map((name) => [name, []])) as unknown as Record<K, number[]>
  for (let round = -1; round < rounds; round++) {
    // Every other round the other way round: what comes second must not always pay for what came first.
    for (const name of round % 2 === 0 ? names : names.toReversed()) {
      const count = counts.get(name) ?? 1
      const seconds = (await timed(works[name], count)) / 1000
      if (round >= 0) rates[name].push(count / seconds)
    }
  }
  return rates
}

/** `of` for each round, divided by `by` in the same round. */
export function ratio(of: readonly number[], by: readonly number[]): Spread {
  return spread(of.map((value, round) => value / (by[round] ?? Number.NaN)))
}

/**
 * How many operations fill a slice: after one of warming up, doubled until a quarter of it is reached. The quickest of
 * three tries counts: a process put off the processor for a moment would else settle on far too few, and a slice so
 * short measures what came before it.
 */
async function settle(work: Work, slice: number): Promise<number> {
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
