/** Lock caching (`linger`): a reuse beside the bare recipe, and what another client pays for a lock that is cached beside a free one. */
import { atLeast, atMost, both, type Figure } from '../figure.js'
import { ratio, takeTurns, type Work } from '../rounds.js'
import { quantile, spread } from '../spread.js'
import type { Scale } from '../suite.js'
import { type Counter, countCommands } from './commands.js'
import type { Contender } from './contender.js'
import { findRecipe } from './recipes.js'

const suite = 'redis'
const key = 'bench:cached'

export async function caching(port: number, scale: Scale): Promise<Figure[]> {
  const [mine, bare, other] = [
    await findRecipe('ours-linger').make([port]),
    await findRecipe('bare').make([port]),
    await findRecipe('ours').make([port]),
  ]
  try {
    return [await reuse(mine, bare, port, scale), await givingWay(mine, other, scale)]
  } finally {
    for (const one of [mine, bare, other]) await one.close()
  }
}

const pairs =
  (contender: Contender, name: string): Work =>
  async (n) => {
    for (let i = 0; i < n; i++) await (await contender.take(name)).release()
  }

async function reuse(mine: Contender, bare: Contender, port: number, { effort }: Scale): Promise<Figure> {
  const works = { ours: pairs(mine, key), bare: pairs(bare, `${key}:bare`) }
  const counter = await countCommands(port)
  const sent = await countReuses(works.ours, counter)
  await counter.stop()
  const rates = await takeTurns(works, effort)
  const of = ratio(rates.ours, rates.bare)
  return {
    suite,
    what: 'acquire + release of a lock that stays with the process (linger), one by one, ioredis',
    unit: 'per second',
    ours: spread(rates.ours),
    floor: { what: 'bare SET NX PX + compare-and-delete', value: spread(rates.bare), ratio: of },
    counts: { 'commands each': sent },
    aim: both({ text: '0 commands', met: sent === 0 }, atLeast(of.median, 20, '×')),
    note: 'nobody else wants the lock; its renewals, one command every ten seconds, are not counted.',
  }
}

/** Commands of a pair. Not before the channel for notifications is open does the lock stay here; a renewal may fall into one count. */
async function countReuses(work: Work, counter: Counter): Promise<number> {
  let least = Number.POSITIVE_INFINITY
  for (let tries = 0; tries < 20 && least > 0; tries++) {
    await counter.look()
    await work(100)
    least = Math.min(least, (await counter.look()).sent / 100)
  }
  return least
}

async function givingWay(mine: Contender, other: Contender, { effort }: Scale): Promise<Figure> {
  const [cached, free]: number[][] = [[], []]
  const each = effort.fixed ?? 200
  for (let round = -1; round < effort.rounds; round++) {
    const ways = [
      async () => median(each, other, key, () => pairs(mine, key)(1)),
      async () => median(each, other, `${key}:free`, async () => undefined),
    ]
    for (const way of round % 2 === 0 ? [0, 1] : [1, 0]) {
      const took = (await ways[way]?.()) ?? Number.NaN
      if (round >= 0) (way === 0 ? cached : free)?.push(took)
    }
  }
  const of = ratio(cached ?? [], free ?? [])
  return {
    suite,
    what: 'acquire of a lock that stays with another client (linger), p50',
    unit: 'µs',
    ours: spread(cached ?? []),
    floor: { what: 'acquire of a free lock, p50', value: spread(free ?? []), ratio: of },
    counts: { 'acquires in a round': each },
    aim: atMost(of.median, 2, '×'),
    note: 'two clients in one process, whose times add up: an entry in the queue, the release of the first, and the poll after it, instead of one request.',
  }
}

/** Of so many acquires, each after `before`, in µs. */
async function median(
  count: number,
  contender: Contender,
  name: string,
  before: () => Promise<void>,
): Promise<number> {
  const times: number[] = []
  for (let i = 0; i < count; i++) {
    await before()
    const began = performance.now()
    const taken = await contender.take(name)
    times.push((performance.now() - began) * 1000)
    await taken.release()
  }
  return quantile(
    times.toSorted((a, b) => a - b),
    0.5,
  )
}
