/** What a simulated client does for one task: takes a lock, works under it, gives it back, and writes all of it down. */
import type { Lease, Lock, Locks } from 'holdfast'
import { attemptOf, type Recorder } from 'holdfast/verify'
import type { makeGuard } from '../faults/guard.js'
import type { Task } from './scenario.js'
import type { ClientClock } from './world.js'

export interface Client {
  readonly clock: ClientClock
  readonly locks: Locks
  readonly journal: Recorder
}

export async function perform(
  { locks, clock, journal }: Client,
  task: Task,
  guard: ReturnType<typeof makeGuard>,
): Promise<void> {
  const sleep = (ms: number) => new Promise<void>((resolve) => clock.at(clock.now() + ms, resolve))
  const gone = task.cancelled === undefined ? undefined : new AbortController()
  const stop = gone && clock.at(clock.now() + (task.cancelled ?? 0), () => gone.abort())
  const lease = await take(locks, task, gone?.signal).catch(expected)
  stop?.()
  if (lease === undefined) return
  const counts = task.kind === 'mutex' || task.kind === 'fair'
  const about = { name: task.name, attempt: attemptOf(lease), token: lease.token }
  const access = (op: 'read' | 'write', value: number) => {
    const event = { ...about, op } as const
    journal.write({ ...event, phase: 'invoke', ...(op === 'write' && { value }) })
    const answer = guard({ ...about, op, value })
    if (answer.ok)
      journal.write({
        ...event,
        phase: 'ok',
        value: answer.value,
        ...(op === 'write' && { seq: answer.seq }),
      })
    else journal.write({ ...event, phase: 'fail', kind: 'stale' })
    return answer
  }
  const read = counts ? access('read', 0) : undefined
  await sleep(task.holds / 2)
  if (task.extends === true) await lease.extend().catch(expected)
  await sleep(task.holds / 2)
  if (read?.ok === true) access('write', read.value + 1)
  await lease.release()
}

function take(locks: Locks, task: Task, signal: AbortSignal | undefined): Promise<Lease | undefined> {
  const { ttl, kind, permits, wait } = task
  const options = {
    ttl,
    ...(signal && { signal }),
    ...(kind === 'permits' && { permits }),
    ...(kind === 'fair' && { fair: true }),
  }
  const lock = lockOf(locks, task)
  return wait === 0 ? lock.tryAcquire(options) : lock.acquire({ ...options, wait })
}

function lockOf(locks: Locks, { kind, name }: Task): Lock {
  if (kind === 'permits') return locks.semaphore(name, { permits: 3 })
  if (kind === 'read' || kind === 'write') return locks.readWrite(name)[kind]
  return kind === 'all' ? locks.all([locks.mutex('a'), locks.mutex('b')]) : locks.mutex(name)
}

function expected(error: { code?: unknown; name?: unknown }): undefined {
  const { code, name } = error
  if (code === 'ACQUIRE_TIMEOUT' || code === 'BACKEND' || code === 'LEASE_LOST' || name === 'AbortError')
    return
  throw error
}
