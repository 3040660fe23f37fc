/** Compares several libraries that lock on the same server, in alternating slices. */
import type { Comparison } from './figure.js'
import { spread } from './spread.js'
import type { Scale } from './suite.js'

export interface Contender {
  readonly library: string
  readonly settings: string
  /** Acquires and releases a free lock `pairs` times; resolves with the number of pairs per second. */
  readonly rate: (pairs: number) => Promise<number>
}

/** From a function that acquires and releases once. */
export function pairWorker(pair: () => Promise<unknown>): Contender['rate'] {
  return async (pairs) => {
    const begin = performance.now()
    for (let i = 0; i < pairs; i++) await pair()
    return pairs / ((performance.now() - begin) / 1000)
  }
}

export async function compareLibraries(
  suite: string,
  contenders: readonly Contender[],
  { effort }: Scale,
  note: string,
): Promise<Comparison> {
  const pairs = effort.fixed ?? 300
  const rates = contenders.map((): number[] => [])
  // The first round is a warm-up; the contenders alternate.
  for (let round = -1; round < effort.rounds; round++) {
    for (const [i, { rate }] of contenders.entries()) {
      const found = await rate(pairs)
      if (round >= 0) rates[i]?.push(found)
    }
  }
  return {
    suite,
    what: 'acquire + release of a free lock, one after the other, on the same server',
    columns: ['pairs per second'],
    rows: contenders.map(({ library, settings }, i) => ({
      library,
      settings,
      values: [spread(rates[i] ?? [])],
    })),
    note,
  }
}
