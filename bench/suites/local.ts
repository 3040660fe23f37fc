/** The embedded default: a broker in a thread of one of the processes, reached over a socket. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createLocks, type Lease, type Locks } from 'holdfast'
import { local } from 'holdfast/local'
import { enlist, type Member } from '../crew.js'
import { atLeast, atMost, both, type Figure } from '../figure.js'
import { BareQueue } from '../floors/in-process.js'
import { connectBare, type ReplyServer, startReplies } from '../floors/request-reply.js'
import { gaps } from '../hand-over.js'
import { heapPer } from '../heap.js'
import { ratio, takeTurns } from '../rounds.js'
import { quantile, spread } from '../spread.js'
import { stamp } from '../stamp.js'
import type { Scale } from '../suite.js'
import { countLines } from '../traffic.js'
import { handOvers } from '../waiters.js'
import type { LocalMember } from '../workers/local-member.js'

const suite = 'local'
const name = 'bench:one'
/** What an acquire and a release look like on the wire, so that the floor carries as much. */
const attempt = '0123456789abcdef0123456789abcdef'
const requests = {
  acquire: ['acquire', name, attempt, 'x', 30_000, true, 0, ''],
  release: ['release', name, attempt, 1_800_000_000_000_000],
}
const reply = ['granted', 1_800_000_000_000_000, 1_800_000_000_065_536, 0.05, false]

export async function measureLocal(scale: Scale): Promise<readonly Figure[]> {
  const server = await startReplies(reply)
  try {
    return [
      await withLocks((locks) => uncontended(locks, server, scale)),
      await withLocks((locks) => waiting(locks, scale)),
      await withLocks((locks, directory) => betweenProcesses(locks, directory, server, scale)),
      await withLocks((locks, directory) => killed(locks, directory, server, scale)),
      await killedWithBroker(server, scale),
      await withLocks((locks) => heap(locks, scale)),
    ]
  } finally {
    await server.stop()
  }
}

async function withLocks(use: (locks: Locks, directory: string) => Promise<Figure>): Promise<Figure> {
  const directory = await mkdtemp(join(tmpdir(), 'holdfast-bench-'))
  const locks = createLocks(local({ directory }))
  try {
    return await use(locks, directory)
  } finally {
    await locks.close()
    await rm(directory, { recursive: true })
  }
}

async function uncontended(locks: Locks, server: ReplyServer, { effort }: Scale): Promise<Figure> {
  const bare = await connectBare(server.path)
  const traffic = countLines()
  const lock = locks.mutex(name)
  let pairs = 0
  const rates = await takeTurns(
    {
      ours: async (n) => {
        for (let i = 0; i < n; i++) {
          const lease = await lock.acquire()
          await lease.release()
        }
        pairs += n
      },
      floor: async (n) => {
        for (let i = 0; i < n; i++) {
          await bare.ask(requests.acquire)
          await bare.ask(requests.release)
        }
      },
    },
    effort,
  )
  traffic.stop()
  await bare.close()
  const microseconds = (rates: readonly number[]) => rates.map((rate) => 1e6 / rate)
  const [ours, floor] = [microseconds(rates.ours), microseconds(rates.floor)]
  const of = ratio(ours, floor)
  // The greeting of the one connection is two lines.
  const calls = traffic.lines() - 2
  return {
    suite,
    what: 'acquire + release, uncontended',
    unit: 'µs',
    ours: spread(ours),
    floor: { what: 'two bare round trips', value: spread(floor), ratio: of },
    counts: { 'calls each': calls / pairs },
    aim: both(atMost(of.median, 2.5, '×'), { text: '2 calls', met: calls === 2 * pairs }),
  }
}

async function waiting(locks: Locks, { effort, waiters }: Scale): Promise<Figure> {
  const traffic = countLines()
  const { rates, counts } = await handOvers(locks.mutex(name), new BareQueue(), waiters, effort)
  traffic.stop()
  const calls = traffic.lines() - 2
  const handed = counts['hand-overs'] ?? Number.NaN
  const ours = spread(rates.ours)
  return {
    suite,
    what: `hand-overs, ${waiters.toLocaleString('en')} waiters on one name in one process`,
    unit: 'per second',
    ours,
    floor: {
      what: 'bare queue of promises',
      value: spread(rates.floor),
      ratio: ratio(rates.ours, rates.floor),
    },
    counts: { ...counts, 'calls to the broker': calls },
    aim: both(atLeast(ours.median, 200_000, '/s'), { text: 'no call for one', met: calls < handed / 1000 }),
    note: 'calls: each slice begins with an acquire and ends with a release; a reserve of 65,536 tokens lies between two calls within one.',
  }
}

async function betweenProcesses(
  locks: Locks,
  directory: string,
  server: ReplyServer,
  scale: Scale,
): Promise<Figure> {
  // Whoever connects first hosts the broker: here neither of the two that hand over.
  await using _keeps = await locks.mutex('bench:host').acquire()
  const members = [enlistMember(directory, server), enlistMember(directory, server)]
  const [one, two] = members as [Member<LocalMember>, Member<LocalMember>]
  const ours: number[] = []
  const floor: number[] = []
  let counted = 0
  const times = Math.max(2, Math.ceil(scale.handOvers / scale.effort.rounds / 2))
  try {
    for (let round = -1; round < scale.effort.rounds; round++) {
      const bare = await one.ask('roundTrips', times * 2, requests.acquire)
      const turns = await Promise.all([one.ask('takeTurns', name, times), two.ask('takeTurns', name, times)])
      const found = gaps(turns.flat())
      if (round < 0) continue
      counted += found.length
      ours.push(median(found) * 1000)
      floor.push(median(bare) * 1000)
    }
  } finally {
    await Promise.all(members.map((member) => member.stop()))
  }
  const of = ratio(ours, floor)
  return {
    suite,
    what: 'release → the waiting process has it, p50',
    unit: 'µs',
    ours: spread(ours),
    floor: { what: 'one bare round trip, p50', value: spread(floor), ratio: of },
    counts: { 'hand-overs': counted },
    aim: atMost(of.median, 2, '×'),
    note: 'from the call of release in one process to the resolved acquire in the other, by the machine’s one monotonic clock; the holder works 0.3 ms, and so does the bare client before each request.',
  }
}

async function killed(
  locks: Locks,
  directory: string,
  server: ReplyServer,
  { kills }: Scale,
): Promise<Figure> {
  await using _keeps = await locks.mutex('bench:host').acquire()
  const waiter = enlistMember(directory, server)
  const times: Kill[] = []
  try {
    for (let i = 0; i < kills; i++) times.push(await killHolder(directory, server, waiter))
  } finally {
    await waiter.stop()
  }
  return killFigure('holder killed with -9 → the waiting process has it', times)
}

async function killedWithBroker(server: ReplyServer, { kills }: Scale): Promise<Figure> {
  const times: Kill[] = []
  for (let i = 0; i < kills; i++) {
    const directory = await mkdtemp(join(tmpdir(), 'holdfast-bench-'))
    const waiter = enlistMember(directory, server)
    try {
      times.push(await killHolder(directory, server, waiter))
    } finally {
      await waiter.stop()
      await rm(directory, { recursive: true })
    }
  }
  return killFigure('the same where the holder hosts the broker', times)
}

interface Kill {
  readonly granted: number
  readonly closed: number
}

/** Milliseconds from the kill to the next grant, and to the end of a bare connection of the same process. */
async function killHolder(
  directory: string,
  server: ReplyServer,
  waiter: Member<LocalMember>,
): Promise<Kill> {
  const holder = enlistMember(directory, server)
  await holder.ask('hold', name)
  await waiter.ask('standInLine', name)
  const killedAt = stamp()
  const closed = server.closedAfter(killedAt)
  await holder.kill()
  return { granted: (await waiter.ask('granted')) - killedAt, closed: (await closed) - killedAt }
}

function killFigure(what: string, kills: readonly Kill[]): Figure {
  const ours = kills.map(({ granted }) => granted)
  const floor = kills.map(({ closed }) => closed)
  return {
    suite,
    what,
    unit: 'ms',
    ours: spread(ours),
    floor: { what: 'its bare connection ends', value: spread(floor), ratio: ratio(ours, floor) },
    counts: { kills: kills.length },
    aim: atMost(Math.max(...ours), 50, 'ms, all'),
  }
}

async function heap(locks: Locks, { leases, effort }: Scale): Promise<Figure> {
  let held: Lease[] = []
  const perLease = await heapPer(leases, Math.min(effort.rounds, 5), {
    fill: async () => {
      const all = Array.from({ length: leases }, (_, i) => locks.mutex(`bench:held:${i}`).acquire())
      held = await Promise.all(all)
    },
    empty: async () => {
      await Promise.all(held.map((lease) => lease.release()))
      held = []
    },
  })
  return {
    suite,
    what: `heap of a held lease, ${leases.toLocaleString('en')} held`,
    unit: 'bytes',
    ours: perLease,
    note: 'in the process that holds; the broker’s thread has a heap of its own.',
  }
}

function enlistMember(directory: string, server: ReplyServer): Member<LocalMember> {
  const module = new URL('../workers/local-member.js', import.meta.url)
  return enlist<LocalMember>(module, [directory, server.path.replace('\0', '@')])
}

function median(values: readonly number[]): number {
  return quantile(
    values.toSorted((a, b) => a - b),
    0.5,
  )
}
