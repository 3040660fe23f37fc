/** The embedded default: a broker in a thread of one of the processes, reached over a socket. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createLocks, type Lease, type Locks } from 'holdfast'
import { local } from 'holdfast/local'
import { atLeast, atMost, both, type Figure } from '../figure.js'
import { BareQueue } from '../floors/in-process.js'
import { connectBare, type ReplyServer, startReplies } from '../floors/request-reply.js'
import { heapPer } from '../heap.js'
import { betweenProcesses, killed, killedWithBroker } from '../local/between-processes.js'
import { name, reply, requests, suite } from '../local/wire.js'
import { ratio, takeTurns } from '../rounds.js'
import { spread } from '../spread.js'
import type { Scale } from '../suite.js'
import { countLines } from '../traffic.js'
import { handOvers } from '../waiters.js'

/** Number of lines that open a connection: hello, challenge and proof. */
const greeting = 3

export async function measureLocal(scale: Scale): Promise<readonly Figure[]> {
  const server = await startReplies(reply)
  try {
    return [
      await withLocks((locks) => uncontended(locks, server, scale)),
      await withLocks((locks) => waiting(locks, scale)),
      ...(await withLocks((locks, directory) => betweenProcesses(locks, directory, server, scale))),
      await withLocks((locks, directory) => killed(locks, directory, server, scale)),
      await killedWithBroker(server, scale, 500),
      await killedWithBroker(server, scale, 0),
      await withLocks((locks) => heap(locks, scale)),
    ]
  } finally {
    await server.stop()
  }
}

async function withLocks<F>(use: (locks: Locks, directory: string) => Promise<F>): Promise<F> {
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
  const calls = traffic.lines() - greeting
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
  const calls = traffic.lines() - greeting
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
