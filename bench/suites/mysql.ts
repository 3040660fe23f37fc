/** Locks in MariaDB: each strategy beside its floor, on one server in the same run. */
import { startMysql } from '../../test/support/servers/mysql.js'
import { atMost, type Figure } from '../figure.js'
import { bareGetLock, bareUpdates, type Contender, ours } from '../mysql/contenders.js'
import { ratio, takeTurns, type Work } from '../rounds.js'
import { spread } from '../spread.js'
import type { Scale } from '../suite.js'

const suite = 'mysql'
/** Concurrent names. */
const atOnce = 16
const names = Array.from({ length: atOnce }, (_, i) => `bench ${i}`)

export async function measureMysql(scale: Scale): Promise<readonly Figure[]> {
  await using server = await startMysql()
  const { url } = server
  const count = async () => {
    const rows = await server.query(`show global status where variable_name in ('Com_update', 'Com_do')`)
    return rows.reduce((sum, row) => sum + Number(row['Value']), 0)
  }
  return [
    ...(await uncontended(url, scale, count)),
    await session(url, scale),
    await handOver('row, the next polls', url, scale, {}),
    await handOver('row, woken with GET_LOCK', url, scale, { wakeWithGetLock: true }),
  ]
}

async function uncontended(url: string, { effort }: Scale, count: () => Promise<number>): Promise<Figure[]> {
  const contenders = { ours: ours(url), floor: await bareUpdates(url, names) }
  for (const name of names) await pairs(contenders.ours, [name])(1)
  const before = await count()
  await pairs(contenders.ours, names.slice(0, 1))(50)
  const each = ((await count()) - before) / 50
  const figures: Figure[] = []
  for (const [how, some] of [
    ['one by one', names.slice(0, 1)],
    [`${atOnce} names at once`, names],
  ] as const) {
    const rates = await takeTurns(
      { ours: pairs(contenders.ours, some), floor: pairs(contenders.floor, some) },
      effort,
    )
    const of = ratio(rates.ours, rates.floor)
    figures.push({
      suite,
      what: `acquire + release, uncontended, row, ${how}`,
      unit: 'per second',
      ours: spread(rates.ours),
      floor: { what: 'two bare guarded UPDATEs', value: spread(rates.floor), ratio: of },
      counts: { 'statements each': each },
      aim: { text: '2 statements', met: each === 2 },
    })
  }
  await Promise.all([contenders.ours.close(), contenders.floor.close()])
  return figures
}

async function session(url: string, { effort }: Scale): Promise<Figure> {
  const contenders = { ours: ours(url, { strategy: 'session' }), floor: await bareGetLock(url) }
  const one = names.slice(0, 1)
  await pairs(contenders.ours, one)(1)
  const rates = await takeTurns(
    { ours: pairs(contenders.ours, one), floor: pairs(contenders.floor, one) },
    effort,
  )
  await Promise.all([contenders.ours.close(), contenders.floor.close()])
  return {
    suite,
    what: 'acquire + release, uncontended, session, one by one',
    unit: 'per second',
    ours: spread(rates.ours),
    floor: {
      what: 'bare GET_LOCK and RELEASE_LOCK',
      value: spread(rates.floor),
      ratio: ratio(rates.ours, rates.floor),
    },
    note: 'ours mints a token and keeps the line in a row: two statements more.',
  }
}

/** `n` pairs: each name runs its share of them in sequence, concurrently with the other names. */
function pairs(contender: Contender, some: readonly string[]): Work {
  return async (n) => {
    let left = n
    const lane = async (name: string) => {
      while (left-- > 0) {
        const release = await contender.take(name)
        await release()
      }
    }
    await Promise.all(some.map(lane))
  }
}

async function handOver(
  how: string,
  url: string,
  { effort }: Scale,
  options: { readonly wakeWithGetLock?: boolean },
): Promise<Figure> {
  const members = [ours(url, options), ours(url, options)] as const
  const floor = [await bareGetLock(url), await bareGetLock(url)] as const
  const mine: number[] = []
  const theirs: number[] = []
  const rounds = Math.max(2, effort.rounds)
  for (let round = -1; round < rounds; round++) {
    const [one, other] = [await passes(members, `${how} ${round}`), await passes(floor, `floor ${round}`)]
    if (round < 0) continue
    mine.push(one)
    theirs.push(other)
  }
  await Promise.all([...members, ...floor].map((one) => one.close()))
  const of = ratio(mine, theirs)
  return {
    suite,
    what: `release → the next holder over another pool, ${how}`,
    unit: 'ms',
    ours: spread(mine),
    floor: { what: 'bare GET_LOCK that blocks on a connection', value: spread(theirs), ratio: of },
    counts: { 'hand-overs in a round': handOversInRound },
    aim: atMost(spread(mine).median, options.wakeWithGetLock === true ? 15 : 60, 'ms'),
    note: 'median of a round, from the call of release to the resolved acquire; both ends in one process.',
  }
}

const handOversInRound = 4

async function passes([a, b]: readonly [Contender, Contender], name: string): Promise<number> {
  const took: number[] = []
  let release = await a.take(name)
  for (let i = 0; i < handOversInRound; i++) {
    const next = i % 2 === 0 ? b : a
    const coming = next.take(name)
    while ((await next.waiting(name)) === 0) await new Promise((resolve) => setTimeout(resolve, 5))
    // Long enough for a poller to have reached its longest pause, and a different time in each.
    await new Promise((resolve) => setTimeout(resolve, 100 + 11 * i))
    const begin = performance.now()
    const [granted] = await Promise.all([coming.then((one) => ({ one, at: performance.now() })), release()])
    took.push(granted.at - begin)
    release = granted.one
  }
  await release()
  return spread(took).median
}
