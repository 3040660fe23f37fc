/** Many at once: competing workers, held leases, waiters in one queue. */
import { connectResp } from '../../test/support/resp.js'
import { atLeast, atMost, both, type Figure } from '../figure.js'
import { spread } from '../spread.js'
import type { Scale } from '../suite.js'
import { countCommands } from './commands.js'
import { compete } from './fairness.js'
import { burst, withWorkers } from './hand-off.js'

const suite = 'redis'

export async function fairness(port: number, { effort, competing, processes }: Scale): Promise<Figure[]> {
  const figures: Figure[] = []
  for (const id of ['ours-fair', 'ours']) {
    const found = await withWorkers(id, port, processes, async (members) => {
      const all = []
      for (let run = 0; run < Math.min(3, effort.rounds); run++)
        all.push(await compete(members, 64, 1, competing))
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

export async function holding(port: number, { leases, holding }: Scale): Promise<Figure[]> {
  return withWorkers('ours', port, 1, async ([member]) => {
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

/** A SLOWLOG entry. */
type Slow = readonly [id: number, at: number, microseconds: number, command: readonly string[]]

export async function longLine(port: number, { longLine, processes }: Scale): Promise<Figure> {
  await using admin = await connectResp(port)
  await admin.send('CONFIG', 'SET', 'slowlog-log-slower-than', 0)
  await admin.send('CONFIG', 'SET', 'slowlog-max-len', longLine * 4)
  await admin.send('SLOWLOG', 'RESET')
  const { handOffs, rate } = await withWorkers('ours-fair', port, processes, (members) =>
    burst('ours-fair', port, members, longLine, 0),
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
