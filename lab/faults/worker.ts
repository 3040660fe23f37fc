/**
 * One process of the lab: takes locks and works under them, writing everything down, until it is told to stop or killed. Code
 * under a lock does not look whether it still holds: that is what guards are for, and some code is like that.
 */
import { join } from 'node:path'
import { createLocks, type Lease, type Lock, type Locks } from 'holdfast'
import { attemptOf, type Recorder, recorded, recorder } from 'holdfast/verify'
import { type Chance, chance } from './chance.js'
import type { Client, LabDriver } from './store.js'
import {
  type GuardAnswer,
  type GuardAsk,
  locksAmong,
  type Order,
  permitsOf,
  type Subject,
  subjectsFor,
  type Task,
  type Told,
} from './workload.js'

const task: Task = JSON.parse(process.argv[2] ?? '')
const { lab }: { lab: LabDriver } = await import(task.module)
let stopping = false
let wallJump = 0
let asked = 0
const strained: Client[] = []
let counted = 0
const answers = new Map<number, (answer: GuardAnswer) => void>()

const realNow = Date.now
Date.now = () => realNow() + wallJump

const tell = (told: Told) => process.send?.(told)
process.on('disconnect', () => process.exit(0))
process.on('message', (order: Order) => {
  if (order.do === 'stop') stopping = true
  else if (order.do === 'wall') wallJump += order.ms
  else if (order.do === 'strain') for (const one of strained) one.strain?.(order.ms)
  else if (order.do === 'block') {
    // Nothing of this process happens, and nobody else is kept from a processor.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, order.ms)
  } else {
    answers.get(order.id)?.(order.answer)
    answers.delete(order.id)
  }
})

function askGuard(ask: GuardAsk): Promise<GuardAnswer> {
  const id = ++asked
  return new Promise((resolve) => {
    answers.set(id, resolve)
    tell({ is: 'guard', id, ...ask })
  })
}

const clients = await Promise.all(Array.from({ length: task.clients }, (_, n) => makeClient(n)))
tell({ is: 'ready' })
await Promise.all(clients.map(({ work }) => work()))
for (const client of clients) await client.close()
process.disconnect()

async function makeClient(n: number) {
  const client = await lab.client(task.place)
  strained.push(client)
  const dice = chance(task.seed * 1000 + n)
  const path = join(task.folder, `${process.pid}-${n}-${task.seed}.jsonl`)
  const journal = recorder(path, { label: task.clients > 1 ? `client-${n}` : 'worker' })
  const locks = recorded(createLocks(client.driver, { ttl: task.ttl, wait: 4 * task.ttl }), journal)
  const subjects = subjectsFor(locks.driver.traits)
  const slow = subjects.filter((one) => one.slow)
  const quick = subjects.filter((one) => !one.slow)
  const lane = async (from: readonly Subject[], dice: Chance) => {
    while (!stopping) await once(locks, journal, dice.pick(from), subjects, dice)
  }
  return {
    work: async () => {
      const lanes = Array.from({ length: task.lanes }, (_, i) =>
        lane(i === task.lanes - 1 && slow.length > 0 ? slow : quick, dice.fork()),
      )
      await Promise.all(lanes)
    },
    close: async () => {
      if (task.tellsStanding) {
        for (const { name } of locksAmong(subjects)) {
          const { holders, waiters } = await locks.inspect(name)
          const left = { holders: holders.length, waiters: waiters.length }
          journal.write({ op: 'standing', phase: 'info', name, ...left })
        }
      }
      await locks.close()
      await client.close()
      journal.close()
    },
  }
}

/** Told in hundreds, so that the lab knows how far it is without reading all that is written down. */
function count(): void {
  counted++
  if (counted % 100 === 0) tell({ is: 'asked', more: 100 })
}

async function once(
  locks: Locks,
  journal: Recorder,
  subject: Subject,
  subjects: readonly Subject[],
  dice: Chance,
): Promise<void> {
  const parts = subjects.filter(({ name }) => subject.of?.includes(name))
  const lock =
    parts.length > 0
      ? locks.all(parts.map((part) => lockOf(locks, part, dice)))
      : lockOf(locks, subject, dice)
  count()
  const lease = await take(lock, subject, dice).catch(expected)
  if (lease === undefined) return pause(dice.between(0, 4))
  await section(journal, subject, lease, dice)
  await lease.release()
  if (dice.next() < 0.2 && !task.brisk) await pause(dice.between(0, 2))
}

function lockOf(locks: Locks, { name, kind }: Subject, dice: Chance): Lock {
  if (kind === 'semaphore') return locks.semaphore(name, { permits: permitsOf })
  if (kind === 'read-write') return locks.readWrite(name)[dice.next() < 0.7 ? 'read' : 'write']
  return locks.mutex(name)
}

async function take(lock: Lock, { kind }: Subject, dice: Chance): Promise<Lease | undefined> {
  const permits = kind === 'semaphore' ? { permits: 1 + dice.below(permitsOf - 1) } : {}
  const way = dice.next()
  if (way < 0.08) return lock.tryAcquire(permits)
  const fair = kind === 'fair' ? { fair: true } : {}
  const wait = waitOf(dice)
  if (way > 0.06 + 0.08) return lock.acquire({ ...permits, ...fair, ...wait })
  const gone = new AbortController()
  const timer = setTimeout(() => gone.abort(), dice.between(0, 40))
  try {
    return await lock.acquire({ ...permits, ...fair, signal: gone.signal })
  } finally {
    clearTimeout(timer)
  }
}

/** Some have no patience, some have no end of it: a waiter that is forgotten shows on those. */
function waitOf(dice: Chance): { wait: number } {
  const way = dice.next()
  if (way < 0.4) return { wait: dice.between(0.02, 0.3) * task.ttl }
  // Said although it is the default: the history then knows when a wait was over.
  return { wait: way < 0.7 ? Number.POSITIVE_INFINITY : 4 * task.ttl }
}

async function section(journal: Recorder, subject: Subject, lease: Lease, dice: Chance): Promise<void> {
  const counts = subject.guarded === true && dice.next() < 0.3
  if (!counts) return dwell(subject, lease, dice)
  const about = { name: subject.name, attempt: attemptOf(lease), token: lease.token }
  const read = await access({ ...about, op: 'read', value: 0 })
  await dwell(subject, lease, dice)
  if (read.ok) await access({ ...about, op: 'write', value: read.value + 1 })

  async function access(ask: GuardAsk & { attempt: string }): Promise<GuardAnswer> {
    const { op, name, attempt, token, value } = ask
    const event = { op, name, attempt, token, ...(op === 'write' && { value }) } as const
    journal.write({ ...event, phase: 'invoke' })
    const answer = await askGuard({ op, name, token, value })
    if (answer.ok) {
      const { value, seq } = answer
      journal.write({ ...event, phase: 'ok', value, ...(op === 'write' && { seq }) })
    } else journal.write({ ...event, phase: 'fail', kind: 'stale' })
    return answer
  }
}

async function dwell({ slow }: Subject, lease: Lease, dice: Chance): Promise<void> {
  const way = dice.next()
  if (!slow) {
    // Now and then the event loop must turn, or nobody else gets to speak.
    if (task.brisk && way < 0.9) return
    if (task.brisk) return new Promise((resolve) => setImmediate(resolve))
    if (way < 0.25) await pause(dice.between(0, 5))
    else await new Promise(setImmediate)
    return
  }
  const ms = way < 0.3 ? dice.between(0.5, 2) * task.ttl : dice.between(0, 0.2) * task.ttl
  await pause(ms / 2)
  if (dice.next() < 0.3) await lease.extend().catch(expected)
  await pause(ms / 2)
}

function expected(error: { code?: unknown; name?: unknown }): undefined {
  const { code, name } = error
  if (code === 'ACQUIRE_TIMEOUT' || code === 'BACKEND' || code === 'LEASE_LOST' || name === 'AbortError')
    return
  throw error
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
