/** A lock with waiters in several processes: commands per hand-off, and its latency. */
import { randomUUID } from 'node:crypto'
import { gaps } from '../hand-over.js'
import { quantile } from '../spread.js'
import { type Member, startWorker } from '../worker-process.js'
import type { RedisMember } from '../workers/redis-member.js'
import { type Counted, countCommands } from './commands.js'
import { findRecipe } from './recipes.js'

export type WorkerProcesses = readonly Member<RedisMember>[]

export async function withWorkers<R>(
  id: string,
  port: number,
  processes: number,
  use: (members: WorkerProcesses) => Promise<R>,
): Promise<R> {
  const module = new URL('../workers/redis-member.js', import.meta.url)
  const members = Array.from({ length: processes }, () => startWorker<RedisMember>(module, [id, `${port}`]))
  try {
    await Promise.all(members.map((member) => member.ask('open')))
    return await use(members)
  } finally {
    await Promise.all(members.map((member) => member.stop()))
  }
}

export interface Burst {
  readonly handOffs: number
  /** Per second, from the first release to the last grant. */
  readonly rate: number
  /** Milliseconds from release to the next grant, sorted. */
  readonly gaps: readonly number[]
}

/** `waiters` in total queue behind one holder of ours, which then releases. */
export async function burst(
  id: string,
  port: number,
  members: WorkerProcesses,
  waiters: number,
  busy: number,
  whileWaiting: () => Promise<void> = async () => undefined,
): Promise<Burst> {
  const key = `bench:burst:${randomUUID()}`
  const holder = await findRecipe(id).make([port])
  const held = await holder.take(key)
  const each = Math.ceil(waiters / members.length)
  await Promise.all(members.map((member) => member.ask('standInLine', key, each, busy)))
  await whileWaiting()
  await held.release()
  const turns = (await Promise.all(members.map((member) => member.ask('turns')))).flat()
  await holder.close()
  const found = gaps(turns)
  const first = Math.min(...turns.map(({ released }) => released))
  const last = Math.max(...turns.map(({ granted }) => granted))
  return {
    handOffs: found.length,
    rate: found.length / ((last - first) / 1000),
    gaps: found.toSorted((a, b) => a - b),
  }
}

export interface BurstCount {
  readonly handOffs: number
  /** Commands sent per hand-off: all but the last release, divided by the hand-offs. */
  readonly each: number
  /** All commands sent by clients: acquiring, waiting and releasing. */
  readonly commands: Counted
  /** Sent per second while the holder did not change. */
  readonly waitingPerSecond: number
}

/**
 * Like `burst`, but counts commands instead of measuring time. The workers must have run a burst before: connecting and subscribing cost
 * commands once. `still`: ms of observation while all of them wait.
 */
export async function countBurst(
  id: string,
  port: number,
  members: WorkerProcesses,
  waiters: number,
  still: number,
): Promise<BurstCount> {
  const key = `bench:count:${randomUUID()}`
  const holder = await findRecipe(id).make([port])
  const held = await holder.take(key)
  const counter = await countCommands(port)
  const each = Math.ceil(waiters / members.length)
  await Promise.all(members.map((member) => member.ask('standInLine', key, each, 0)))
  // After this pause all requests have been sent.
  await new Promise((resolve) => setTimeout(resolve, still))
  const asking = await counter.look()
  await new Promise((resolve) => setTimeout(resolve, still))
  const waiting = await counter.look()
  await held.release()
  const turns = (await Promise.all(members.map((member) => member.ask('turns')))).flat()
  const passing = await counter.look()
  await counter.stop()
  await holder.close()
  gaps(turns)
  const commands = sum([asking, waiting, passing])
  return {
    // From our own holder to the first waiter, and so on to the last, whose release has no successor.
    handOffs: turns.length,
    each: (commands.sent - 1) / turns.length,
    commands,
    waitingPerSecond: (waiting.sent / still) * 1000,
  }
}

function sum(all: readonly Counted[]): Counted {
  const byName: Record<string, number> = {}
  for (const part of all) {
    for (const [name, count] of Object.entries(part.byName)) byName[name] = (byName[name] ?? 0) + count
  }
  const add = (of: (part: Counted) => number) => all.reduce((total, part) => total + of(part), 0)
  return { sent: add(({ sent }) => sent), inside: add(({ inside }) => inside), byName }
}

export function at(sorted: readonly number[], q: number): number {
  return quantile(sorted, q)
}
