/** The npm libraries that lock over Redis, beside holdfast and the bare floors, on the same server and client. */
import { startMany, startRedis } from '../../test/support/servers/redis.js'
import type { Comparison, Row } from '../figure.js'
import { installPeers } from '../peer-packages.js'
import { countCommands } from '../redis/commands.js'
import { compete } from '../redis/fairness.js'
import { at, burst, countBurst, withWorkers } from '../redis/hand-off.js'
import { peerIds, quorumPeerIds, renewingPeerIds } from '../redis/peers.js'
import { measureQuorum, openQuorum, quorumSize } from '../redis/quorum.js'
import { findRecipe } from '../redis/recipes.js'
import { measureUncontended } from '../redis/uncontended.js'
import { ratio } from '../rounds.js'
import { type Spread, spread } from '../spread.js'
import type { Scale } from '../suite.js'

const suite = 'peers'
/** Number of runs for everything not measured in rounds. */
const runCount = ({ effort }: Scale) => Math.min(3, effort.rounds)

export async function measurePeers(scale: Scale): Promise<readonly Comparison[]> {
  installPeers()
  await using server = await startRedis()
  const { port } = server
  const waiting = ['push', 'ours', 'ours-fair', ...peerIds.flatMap((id) => [id, `${id}-fast`])]
  return [
    await uncontended(['bare', 'push', 'ours', ...peerIds], port, scale),
    ...(await handOffs(waiting, port, scale)),
    await fairness(waiting, port, scale),
    await holding(['ours', ...renewingPeerIds], port, scale),
    await quorum(['quorum-bare', 'quorum-ours', ...quorumPeerIds], scale),
  ]
}

async function uncontended(ids: readonly string[], port: number, scale: Scale): Promise<Comparison> {
  const found = await measureUncontended(ids, port, scale)
  const columns = [
    'one by one, per second',
    'of the bare floor',
    'commands each',
    '64 keys at once, per second',
    'of the bare floor',
    'commands each',
  ]
  const rows = ids.map((id) =>
    row(id, [
      spread(found.oneByOne[id] ?? []),
      ratio(found.oneByOne[id] ?? [], found.oneByOne['bare'] ?? []),
      one(found.commands.get(id)),
      spread(found.together[id] ?? []),
      ratio(found.together[id] ?? [], found.together['bare'] ?? []),
      one(found.commandsTogether.get(id)),
    ]),
  )
  return { suite, what: 'Uncontended acquire + release, one ioredis connection', columns, rows }
}

async function handOffs(ids: readonly string[], port: number, scale: Scale): Promise<Comparison[]> {
  const lengths = scale.lines.filter((waiters) => waiters >= 4 && waiters <= 128)
  const rows = new Map<number, Row[]>(lengths.map((waiters) => [waiters, []]))
  for (const id of ids) {
    await withWorkers(id, port, scale.processes, async (members) => {
      for (const waiters of lengths) {
        const runs = []
        for (let run = 0; run < runCount(scale); run++) runs.push(await burst(id, port, members, waiters, 0))
        const { each, waitingPerSecond } = await countBurst(id, port, members, waiters, scale.still)
        const gaveUp = await Promise.all(members.map((member) => member.ask('gaveUp')))
        rows
          .get(waiters)
          ?.push(
            row(id, [
              spread(runs.map(({ rate }) => rate)),
              spread(runs.map(({ gaps }) => at(gaps, 0.5))),
              spread(runs.map(({ gaps }) => at(gaps, 0.99))),
              one(each),
              one(waitingPerSecond),
              one(gaveUp.reduce((sum, count) => sum + count, 0)),
            ]),
          )
      }
    })
  }
  const columns = [
    'hand-offs/s',
    'gap p50 ms',
    'gap p99 ms',
    'commands of a hand-off',
    'commands/s while waiting',
    'gave up so far',
  ]
  const note = `A hand-off’s commands include those sent while it waited, which was ${(2 * scale.still) / 1000} s in the run that counted.`
  return [...rows].map(([waiters, rows]) => ({
    suite,
    what: `Hand-off, ${waiters} waiters in ${scale.processes} processes`,
    columns,
    rows,
    note,
  }))
}

async function fairness(ids: readonly string[], port: number, scale: Scale): Promise<Comparison> {
  const rows: Row[] = []
  for (const id of ids) {
    const found = await withWorkers(id, port, scale.processes, (members) =>
      compete(members, 64, 1, scale.competing),
    )
    rows.push(
      row(id, [
        one(found.perSecond),
        one(found.jain),
        one(found.passedOver),
        one(found.starved),
        one(found.longest),
        one(found.longestOfMean),
      ]),
    )
  }
  const columns = ['grants/s', 'Jain', 'passed over', 'starved', 'longest wait ms', 'of the mean']
  return {
    suite,
    what: `Fairness, 64 workers in ${scale.processes} processes, 1 ms held, ${scale.competing / 1000} s`,
    columns,
    rows,
  }
}

async function holding(
  ids: readonly string[],
  port: number,
  { leases, holding }: Scale,
): Promise<Comparison> {
  const rows: Row[] = []
  for (const id of ids) {
    const values = await withWorkers(id, port, 1, async ([member]) => {
      if (member === undefined) return []
      const heap = await member.ask('hold', `bench:kept:${id}`, leases, true)
      const counter = await countCommands(port)
      await member.ask('load')
      await new Promise((resolve) => setTimeout(resolve, holding))
      const load = await member.ask('load')
      const { sent } = await counter.look()
      await counter.stop()
      await member.ask('drop')
      return [one(sent / (holding / 1000)), one(load * 100), one(heap)]
    })
    rows.push(row(id, values))
  }
  return {
    suite,
    what: `${leases.toLocaleString('en')} locks held for 10 s at a time and renewed`,
    columns: ['commands/s', '% of a core', 'heap bytes each'],
    rows,
  }
}

async function quorum(ids: readonly string[], scale: Scale): Promise<Comparison> {
  await using group = await startMany(quorumSize)
  const contenders = await openQuorum(ids, group)
  const healthy = await measureQuorum(contenders, scale)
  group.servers[0]?.pause()
  const frozen = await measureQuorum(contenders, scale)
  group.servers[0]?.resume()
  for (const contender of contenders.values()) await contender.close()
  const rows = ids.map((id) =>
    row(
      id,
      [healthy, frozen].flatMap(({ rates, p99, stuck }) => {
        if (stuck.has(id)) return [one(0), one(0), undefined]
        const of = ratio(rates[id] ?? [], rates['quorum-bare'] ?? [])
        return [spread(rates[id] ?? []), of, one(p99.get(id))]
      }),
    ),
  )
  return {
    suite,
    what: `Acquire + release over ${quorumSize} servers`,
    columns: [
      ...['per second', 'of the bare majority', 'p99 ms'],
      ...['per second, one server stopped', 'of the bare majority', 'p99 ms'],
    ],
    rows,
    note: `Stopped: SIGSTOP. 0 per second: not one acquire and release was done within ${scale.stuckAfter / 1000} s.`,
  }
}

function row(id: string, values: Row['values']): Row {
  const { name, settings } = findRecipe(id)
  return { library: name, settings, values }
}

function one(value: number | undefined): Spread | undefined {
  return value === undefined ? undefined : spread([value])
}
