/** Locks in Redis: the figures of holdfast, each against the least that could do the same. */

import { connectResp } from '../../test/support/resp.js'
import { startRedis } from '../../test/support/servers/redis.js'
import { atLeast, atMost, both, type Figure } from '../figure.js'
import { BareQueue } from '../floors/in-process.js'
import { countCommands } from '../redis/commands.js'
import type { ClientKind } from '../redis/contender.js'
import { compete } from '../redis/fairness.js'
import { at, burst, type Crew, countBurst, withCrew } from '../redis/hand-off.js'
import { recipeOf } from '../redis/recipes.js'
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
  ]
}

async function uncontended(port: number, scale: Scale): Promise<Figure[]> {
  const found = await measureUncontended(['ours', 'bare', 'ours-node', 'bare-node'], port, scale)
  const figures: Figure[] = []
  const clients: readonly (readonly [ClientKind, string, string])[] = [
    ['ioredis', 'ours', 'bare'],
    ['node-redis', 'ours-node', 'bare-node'],
  ]
  for (const [client, ours, bare] of clients) {
    const sent = found.commands.get(ours) ?? Number.NaN
    const lines = [
      ['one by one', found.oneByOne, found.commands],
      ['64 keys at once', found.together, found.commandsTogether],
    ] as const
    for (const [how, rates, commands] of lines) {
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
    const found = await withCrew('ours-fair', port, Math.min(processes, waiters), (crew) =>
      countBurst('ours-fair', port, crew, waiters, still),
    )
    const each = found.commands.sent / found.handOffs
    figures.push({
      suite,
      what: `commands of a hand-off between processes, ${waiters.toLocaleString('en')} waiting (fair)`,
      unit: 'commands',
      ours: spread([each]),
      counts: {
        'hand-offs': found.handOffs,
        commands: found.commands.sent,
        'per second while waiting': found.waitingPerSecond,
      },
      // Many that ask in one tick are one command, so it may be less.
      aim: atMost(each, 2, 'commands'),
    })
  }
  return figures
}

async function handOffTime(port: number, { effort, handOvers, processes }: Scale): Promise<Figure> {
  const waiters = Math.max(processes, Math.min(64, Math.ceil(handOvers / effort.rounds)))
  const ids = ['ours-fair', 'push'] as const
  const p50s = await alternate(port, ids, processes, effort.rounds, async (id, crew) => {
    const { gaps } = await burst(id, port, crew, waiters, 0.3)
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

/** The same with each contender in turn; the crews stay up. What `measure` gave, by contender, round by round. */
async function alternate(
  port: number,
  ids: readonly [string, string],
  processes: number,
  rounds: number,
  measure: (id: string, crew: Crew) => Promise<number>,
): Promise<number[][]> {
  const found: number[][] = [[], []]
  await withCrew(ids[0], port, processes, (one) =>
    withCrew(ids[1], port, processes, async (two) => {
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
  const contender = await recipeOf('ours').make([port])
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

async function fairness(port: number, { effort, competing, processes }: Scale): Promise<Figure[]> {
  const figures: Figure[] = []
  for (const id of ['ours-fair', 'ours']) {
    const found = await withCrew(id, port, processes, async (crew) => {
      const all = []
      for (let run = 0; run < Math.min(3, effort.rounds); run++)
        all.push(await compete(crew, 64, 1, competing))
      return all
    })
    const jain = spread(found.map(({ jain }) => jain))
    const passedOver = found.reduce((sum, { passedOver }) => sum + passedOver, 0)
    const even = atLeast(jain.median, 0.99, '')
    figures.push({
      suite,
      what: `fairness of 64 workers in ${processes} processes, ${id === 'ours' ? 'default' : 'fair'}`,
      unit: 'Jain',
      ours: jain,
      counts: {
        'grants/s': Math.round(spread(found.map(({ perSecond }) => perSecond)).median),
        'passed over': passedOver,
        starved: found.reduce((sum, { starved }) => sum + starved, 0),
        'longest wait of the mean': spread(found.map(({ longestOfMean }) => longestOfMean)).median,
      },
      aim: id === 'ours' ? even : both(even, { text: 'nobody passed over', met: passedOver === 0 }),
    })
  }
  return figures
}

async function holding(port: number, { leases, holding }: Scale): Promise<Figure[]> {
  return withCrew('ours', port, 1, async ([member]) => {
    if (member === undefined) return []
    const heap = await member.ask('hold', 'bench:held', leases, false)
    const counter = await countCommands(port)
    await member.ask('load')
    await new Promise((resolve) => setTimeout(resolve, holding))
    const load = await member.ask('load')
    const { sent } = await counter.look()
    await counter.stop()
    await member.ask('drop')
    const held = `${leases.toLocaleString('en')} leases held by one process`
    const perSecond = sent / (holding / 1000)
    return [
      {
        suite,
        what: `${held}: commands`,
        unit: 'per second',
        ours: spread([perSecond]),
        counts: { commands: sent, seconds: holding / 1000 },
        aim: atMost(perSecond, 5, '/s'),
      },
      {
        suite,
        what: `${held}: processor`,
        unit: '% of a core',
        ours: spread([load * 100]),
        aim: atMost(load * 100, 1, '%'),
      },
      {
        suite,
        what: `${held}: heap of each`,
        unit: 'bytes',
        ours: spread([heap]),
        aim: atMost(heap, 2048, 'bytes'),
      },
    ]
  })
}

/** An entry of SLOWLOG. */
type Slow = readonly [id: number, at: number, microseconds: number, command: readonly string[]]

async function longLine(port: number, { longLine, processes }: Scale): Promise<Figure> {
  await using admin = await connectResp(port)
  await admin.send('CONFIG', 'SET', 'slowlog-log-slower-than', 0)
  await admin.send('CONFIG', 'SET', 'slowlog-max-len', longLine * 4)
  await admin.send('SLOWLOG', 'RESET')
  const { handOffs, rate } = await withCrew('ours-fair', port, processes, (crew) =>
    burst('ours-fair', port, crew, longLine, 0),
  )
  const log = (await admin.send('SLOWLOG', 'GET', -1)) as unknown as readonly Slow[]
  await admin.send('CONFIG', 'SET', 'slowlog-log-slower-than', 10_000)
  const times = log
    .filter(([, , , [command = '']]) => /^evalsha$/i.test(command))
    .map(([, , microseconds]) => microseconds / 1000)
  const slow = times.filter((time) => time > 1).length
  return {
    suite,
    what: `${longLine.toLocaleString('en')} waiters on one key: time of a script`,
    unit: 'ms',
    ours: spread(times),
    counts: {
      scripts: times.length,
      'above 1 ms': slow,
      'hand-offs': handOffs,
      'hand-offs/s': Math.round(rate),
    },
    aim: { text: 'none above 1 ms', met: slow === 0 },
    note: 'by the server’s own clock of each command; a server that is put off the processor meanwhile counts that too.',
  }
}
