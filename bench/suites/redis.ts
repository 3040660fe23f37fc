/** Locks in Redis: holdfast's figures, each beside its floor. */

import { startRedis } from '../../test/support/servers/redis.js'
import { atLeast, atMost, both, type Figure } from '../figure.js'
import { BareQueue } from '../floors/in-process.js'
import { caching } from '../redis/caching.js'
import { countCommands } from '../redis/commands.js'
import type { ClientKind } from '../redis/contender.js'
import { fairness, holding, longLine } from '../redis/crowds.js'
import { at, burst, countBurst, type WorkerProcesses, withWorkers } from '../redis/hand-off.js'
import { findRecipe } from '../redis/recipes.js'
import { measureUncontended } from '../redis/uncontended.js'
import { ratio } from '../rounds.js'
import { spread } from '../spread.js'
import type { Scale } from '../suite.js'
import { handOvers } from '../waiters.js'

const suite = 'redis'

export async function measureRedis(scale: Scale): Promise<readonly Figure[]> {
  await using server = await startRedis()
  const { port } = server
  return [
    ...(await uncontended(port, scale)),
    ...(await handOffCommands(port, scale)),
    await handOffTime(port, scale),
    await oneProcess(port, scale),
    ...(await fairness(port, scale)),
    ...(await holding(port, scale)),
    await longLine(port, scale),
    ...(await caching(port, scale)),
  ]
}

async function uncontended(port: number, scale: Scale): Promise<Figure[]> {
  const found = await measureUncontended(['ours', 'bare', 'ours-node', 'bare-node'], port, scale, [
    'set',
    'evalsha',
  ])
  const figures: Figure[] = []
  const clients: readonly (readonly [ClientKind, string, string])[] = [
    ['ioredis', 'ours', 'bare'],
    ['node-redis', 'ours-node', 'bare-node'],
  ]
  for (const [client, ours, bare] of clients) {
    const sent = found.commands.get(ours) ?? Number.NaN
    const lines = [
      ['one by one', found.oneByOne, found.commands, found.costs],
      ['64 keys at once', found.together, found.commandsTogether, found.costsTogether],
    ] as const
    for (const [how, rates, commands, costs] of lines) {
      const [mine = [], theirs = []] = [rates[ours], rates[bare]]
      const of = ratio(mine, theirs)
      const aim = atLeast(of.median, 0.9, '×')
      figures.push({
        suite,
        what: `acquire + release, uncontended, ${how}, ${client}`,
        unit: 'per second',
        ours: spread(mine),
        floor: { what: 'bare SET NX PX + compare-and-delete', value: spread(theirs), ratio: of },
        counts: {
          'commands each': commands.get(ours) ?? Number.NaN,
          'of the floor': commands.get(bare) ?? Number.NaN,
          'µs in the server each': costs.get(ours)?.server ?? Number.NaN,
          'of the floor’s': costs.get(bare)?.server ?? Number.NaN,
          'µs of the client’s processor each': costs.get(ours)?.client ?? Number.NaN,
          'of the floor’s client': costs.get(bare)?.client ?? Number.NaN,
        },
        aim: how === 'one by one' ? both({ text: '2 commands', met: sent === 2 }, aim) : aim,
      })
    }
  }
  return figures
}

async function handOffCommands(port: number, { lines, still, processes }: Scale): Promise<Figure[]> {
  const figures: Figure[] = []
  for (const waiters of lines) {
    const found = await withWorkers('ours-fair', port, Math.min(processes, waiters), async (members) => {
      await burst('ours-fair', port, members, members.length, 0)
      return countBurst('ours-fair', port, members, waiters, still)
    })
    figures.push({
      suite,
      what: `commands of a hand-off between processes, ${waiters.toLocaleString('en')} waiting (fair)`,
      unit: 'commands',
      ours: spread([found.each]),
      counts: {
        'hand-offs': found.handOffs,
        commands: found.commands.sent,
        'per second while waiting': found.waitingPerSecond,
      },
      // Requests of one tick share a command, so it may be less.
      aim: atMost(found.each, 2, 'commands'),
      note: 'once connected; without the last release, which hands the lock to nobody.',
    })
  }
  return figures
}

async function handOffTime(port: number, { effort, handOvers, processes }: Scale): Promise<Figure> {
  const waiters = Math.max(processes, Math.min(64, Math.ceil(handOvers / effort.rounds)))
  const ids = ['ours-fair', 'push'] as const
  const p50s = await alternate(port, ids, processes, effort.rounds, async (id, members) => {
    const { gaps } = await burst(id, port, members, waiters, 0.3)
    return at(gaps, 0.5) * 1000
  })
  const [ours = [], floor = []] = p50s
  const of = ratio(ours, floor)
  return {
    suite,
    what: 'release → the next holder in another process, p50',
    unit: 'µs',
    ours: spread(ours),
    floor: { what: 'bare script that pops and publishes, p50', value: spread(floor), ratio: of },
    counts: { 'hand-offs in a round': waiters - 1 },
    aim: atMost(of.median, 1.3, '×'),
    note: `from the call of release to the resolved acquire, ${waiters} waiters in ${processes} processes; each holder works 0.3 ms.`,
  }
}

/** Runs `measure` for each contender in turn; the crews stay up. Returns its results by contender, by round. */
async function alternate(
  port: number,
  ids: readonly [string, string],
  processes: number,
  rounds: number,
  measure: (id: string, members: WorkerProcesses) => Promise<number>,
): Promise<number[][]> {
  const found: number[][] = [[], []]
  await withWorkers(ids[0], port, processes, (one) =>
    withWorkers(ids[1], port, processes, async (two) => {
      for (let round = -1; round < rounds; round++) {
        const order = round % 2 === 0 ? [0, 1] : [1, 0]
        for (const place of order) {
          const value = await measure(ids[place] ?? '', place === 0 ? one : two)
          if (round >= 0) found[place]?.push(value)
        }
      }
    }),
  )
  return found
}

async function oneProcess(port: number, { effort }: Scale): Promise<Figure> {
  const waiters = 128
  const contender = await findRecipe('ours').make([port])
  const counter = await countCommands(port)
  const lock = { acquire: () => contender.take('bench:inside') }
  const { rates, counts } = await handOvers(lock, new BareQueue(), waiters, effort)
  const { sent } = await counter.look()
  await counter.stop()
  await contender.close()
  const ours = spread(rates.ours)
  return {
    suite,
    what: 'hand-overs, 128 waiters on one name in one process',
    unit: 'per second',
    ours,
    floor: {
      what: 'bare queue of promises',
      value: spread(rates.floor),
      ratio: ratio(rates.ours, rates.floor),
    },
    counts: { ...counts, commands: sent },
    aim: both(atLeast(ours.median, 100_000, '/s'), {
      text: '~0 commands',
      met: sent < (counts['hand-overs'] ?? 0) / 100,
    }),
    note: 'commands: each slice begins with an acquire and ends with a release; renewals, if it lasts that long.',
  }
}
