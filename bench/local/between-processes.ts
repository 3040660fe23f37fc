/** How fast one process learns about a lock from another: that it was released, and that its holder was killed. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Locks } from 'holdfast'
import { atMost, type Figure } from '../figure.js'
import type { ReplyServer } from '../floors/request-reply.js'
import { gaps } from '../hand-over.js'
import { ratio } from '../rounds.js'
import { quantile, spread } from '../spread.js'
import { stamp } from '../stamp.js'
import type { Scale } from '../suite.js'
import { type Member, startWorker } from '../worker-process.js'
import type { LocalMember } from '../workers/local-member.js'
import { name, requests, suite } from './wire.js'

export async function betweenProcesses(
  locks: Locks,
  directory: string,
  server: ReplyServer,
  scale: Scale,
): Promise<Figure[]> {
  // The first process to connect hosts the broker: here neither of the two that hand over.
  await using _keeps = await locks.mutex('bench:host').acquire()
  const members = [startMember(directory, server), startMember(directory, server)]
  const [one, two] = members as [Member<LocalMember>, Member<LocalMember>]
  const ours: number[] = []
  const floor: number[] = []
  const relay: number[] = []
  let counted = 0
  const times = Math.max(2, Math.ceil(scale.handOvers / scale.effort.rounds / 2))
  try {
    for (let round = -1; round < scale.effort.rounds; round++) {
      const bare = await one.ask('roundTrips', times * 2, requests.acquire)
      const relayed = await relays(one, two, times * 2)
      const turns = await Promise.all([one.ask('takeTurns', name, times), two.ask('takeTurns', name, times)])
      const found = gaps(turns.flat())
      if (round < 0) continue
      counted += found.length
      ours.push(median(found) * 1000)
      floor.push(median(bare) * 1000)
      relay.push(median(relayed) * 1000)
    }
  } finally {
    await Promise.all(members.map((member) => member.stop()))
  }
  const of = ratio(ours, floor)
  const figure = { suite, what: 'release → the waiting process has it, p50', unit: 'µs', ours: spread(ours) }
  return [
    {
      ...figure,
      floor: { what: 'one bare round trip, p50', value: spread(floor), ratio: of },
      counts: { 'hand-overs': counted },
      aim: atMost(of.median, 2, '×'),
      note: 'from the call of release in one process to the resolved acquire in the other, by the machine’s one monotonic clock; the holder works 0.3 ms, and so does the bare client before each request.',
    },
    {
      ...figure,
      floor: {
        what: 'a bare line from one process to the other by way of the server, p50',
        value: spread(relay),
        ratio: ratio(ours, relay),
      },
      note: 'the second floor wakes a process that sleeps, as a hand-over does; the client of a round trip has only just sent.',
    },
  ]
}

/** Milliseconds from sending a bare line in `from` to its arrival in `to`. */
async function relays(from: Member<LocalMember>, to: Member<LocalMember>, times: number): Promise<number[]> {
  await to.ask('listen', times)
  const sent = await from.ask('relay', times, requests.release)
  const arrived = await to.ask('relayed')
  return sent.map((at, i) => (arrived[i] ?? Number.NaN) - at)
}

export async function killed(
  locks: Locks,
  directory: string,
  server: ReplyServer,
  { kills }: Scale,
): Promise<Figure> {
  await using _keeps = await locks.mutex('bench:host').acquire()
  const waiter = startMember(directory, server)
  const times: Kill[] = []
  try {
    for (let i = 0; i < kills; i++) times.push(await killHolder(directory, server, waiter))
  } finally {
    await waiter.stop()
  }
  return killFigure('holder killed with -9 → the waiting process has it', times)
}

/**
 * @param waited ms between queueing and the kill. The waiter is asked to start a standby thread; with no time for that, the figure is the
 * time to start a thread.
 */
export async function killedWithBroker(
  server: ReplyServer,
  { kills }: Scale,
  waited: number,
): Promise<Figure> {
  const times: Kill[] = []
  for (let i = 0; i < kills; i++) {
    const directory = await mkdtemp(join(tmpdir(), 'holdfast-bench-'))
    const waiter = startMember(directory, server)
    try {
      times.push(await killHolder(directory, server, waiter, waited))
    } finally {
      await waiter.stop()
      await rm(directory, { recursive: true })
    }
  }
  const when = waited === 0 ? 'and is killed at once' : `and is killed ${waited} ms later`
  return killFigure(`the same where the holder hosts the broker ${when}`, times, waited > 0)
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
  waited = 0,
): Promise<Kill> {
  const holder = startMember(directory, server)
  await holder.ask('hold', name)
  await waiter.ask('standInLine', name)
  await sleep(waited)
  const killedAt = stamp()
  const closed = server.closedAfter(killedAt)
  await holder.kill()
  return { granted: (await waiter.ask('granted')) - killedAt, closed: (await closed) - killedAt }
}

function killFigure(what: string, kills: readonly Kill[], aimed = true): Figure {
  const ours = kills.map(({ granted }) => granted)
  const floor = kills.map(({ closed }) => closed)
  return {
    suite,
    what,
    unit: 'ms',
    ours: spread(ours),
    floor: { what: 'its bare connection ends', value: spread(floor), ratio: ratio(ours, floor) },
    counts: { kills: kills.length },
    ...(aimed && { aim: atMost(Math.max(...ours), 50, 'ms, all') }),
  }
}

function startMember(directory: string, server: ReplyServer): Member<LocalMember> {
  const module = new URL('../workers/local-member.js', import.meta.url)
  return startWorker<LocalMember>(module, [directory, server.path.replace('\0', '@')])
}

function median(values: readonly number[]): number {
  return quantile(
    values.toSorted((a, b) => a - b),
    0.5,
  )
}
