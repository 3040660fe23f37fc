/** The cost of a lock in a store with an HTTP interface, beside a bare client that does the same writes in the same run. */
import { atLeast, type Figure } from '../figure.js'
import type { Pair } from '../floors/http.js'
import { ratio, takeTurns } from '../rounds.js'
import { spread } from '../spread.js'
import type { Scale } from '../suite.js'

/** Concurrent keys. */
const atOnce = 16

export async function figures(
  suite: string,
  floor: string,
  ours: Pair,
  bare: Pair,
  { effort }: Scale,
  /** Follows the name of each figure, as in `, over gRPC`. */
  how = '',
): Promise<readonly Figure[]> {
  const oneByOne = (pair: Pair, who: string) => async (n: number) => {
    for (let i = 0; i < n; i++) await pair(`bench:${who}`)
  }
  const together = (pair: Pair, who: string) => {
    const keys = Array.from({ length: atOnce }, (_, i) => `bench:${who}:${i}`)
    return async (n: number) => {
      let left = n
      const lane = async (key: string) => {
        while (left-- > 0) await pair(key)
      }
      await Promise.all(keys.map(lane))
    }
  }
  const found: Figure[] = []
  for (const [what, work] of [
    ['acquire + release, uncontended', oneByOne],
    [`acquire + release, ${atOnce} keys at once`, together],
  ] as const) {
    const rates = await takeTurns({ ours: work(ours, 'ours'), bare: work(bare, 'bare') }, effort)
    const of = ratio(rates.ours, rates.bare)
    found.push({
      suite,
      what: what + how,
      unit: 'per second',
      ours: spread(rates.ours),
      floor: { what: floor, value: spread(rates.bare), ratio: of },
      aim: atLeast(of.median, 0.8, '×'),
    })
  }
  return found
}
