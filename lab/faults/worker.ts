/**
 * One process of the lab: takes locks and works under them, recording everything, until it is stopped or killed. Code under a lock does not
 * check whether it still holds: guards are there for that, and some real code does not check.
 */
import { join } from 'node:path'
import { createLocks, type Lease, type Locks } from 'holdfast'
import { getAttempt, type Recorder, recorder, recordLocks, watchStarvation } from 'holdfast/verify'
import { noteHandOvers, noteLinger } from './caching.js'
import { type Chance, chance } from './chance.js'
import { countUnder } from './counter.js'
import { burst, forceReleaseAny } from './crowd.js'
import { keepTaking } from './keeper.js'
import type { LabDriver } from './store.js'
import { acquireRandomly, createLock, randomLinger, randomTerm } from './take.js'
import { transactions } from './transactions.js'
import {
  type GuardAnswer,
  type GuardAsk,
  locksAmong,
  type Order,
  type OrderOf,
  type Subject,
  subjectsFor,
  type Task,
  type WorkerReport,
} from './workload.js'

const task: Task = JSON.parse(process.argv[2] ?? '')
const { lab }: { lab: LabDriver } = await import(task.module)
let stopping = false
let wallJump = 0
let staysUntil = 0
let asked = 0
const clients: Awaited<ReturnType<typeof makeClient>>[] = []
let counted = 0
/** The store's minimum ttl, in ms. */
let leastTerm = 0
const answers = new Map<number, (answer: GuardAnswer) => void>()

const realNow = Date.now
Date.now = () => realNow() + wallJump

const send = (told: WorkerReport) => process.send?.(told)
process.on('disconnect', () => process.exit(0))
process.on('message', (order: Order) => {
  if (order.do === 'stop') stopping = true
  else if (order.do === 'wall') wallJump += order.ms
  else if (order.do === 'stay') staysUntil = performance.now() + order.ms
  else if (order.do === 'strain') for (const one of clients) one.strain(order.ms)
  else if (order.do === 'crowd') for (const one of clients) one.crowd(order)
  else if (order.do === 'force') clients[0]?.force(order.choice)
  else if (order.do === 'block') {
    // Blocks this process without taking a processor from the others.
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
    send({ is: 'guard', id, ...ask })
  })
}

for (let n = 0; n < task.clients; n++) clients.push(await makeClient(n))
const machine = recorder(join(task.folder, `${process.pid}-machine-${task.seed}.jsonl`), { label: 'machine' })
const unwatch = watchStarvation(machine)
send({ is: 'ready' })
await Promise.all(clients.map(({ work }) => work()))
unwatch()
machine.close()
for (const client of clients) await client.close()
process.disconnect()

async function makeClient(n: number) {
  const client = await lab.client(task.place)
  const random = chance(task.seed * 1000 + n)
  const path = join(task.folder, `${process.pid}-${n}-${task.seed}.jsonl`)
  const journal = recorder(path, { label: task.clients > 1 ? `client-${n}` : 'worker' })
  const locks = recordLocks(createLocks(client.driver, { ttl: task.ttl, wait: 4 * task.ttl }), journal)
  const subjects = subjectsFor(locks.driver.traits, task.lingers)
  leastTerm = locks.driver.traits.minTtl
  const slow = subjects.filter((one) => one.slow)
  const kept = subjects.filter((one) => one.kept)
  const quick = subjects.filter((one) => !one.slow && !one.kept)
  const take = (subject: Subject, random: Chance, linger: number) =>
    once(locks, journal, { subject, subjects, linger }, random)
  const lane = async (from: readonly Subject[], random: Chance) => {
    const linger = () => (task.lingers ? randomLinger(random, task.ttl) : 0)
    while (!stopping) await take(random.pick(from), random, linger())
  }
  if (task.lingers) noteHandOvers(locks, journal)
  const besides = new Set<Promise<void>>()
  const beside = (work: Promise<void>) => {
    if (stopping) return
    besides.add(work)
    void work.finally(() => besides.delete(work))
  }
  return {
    strain: (ms: number) => client.strain?.(ms),
    crowd: (order: OrderOf<'crowd'>) =>
      burst(locks, subjects, task.ttl, order, random.fork()).map((one) => beside(one.catch(expected))),
    force: (choice: number) => beside(forceReleaseAny(locks, subjects, choice).catch(expected)),
    work: async () => {
      const lanes = Array.from({ length: task.lanes }, (_, i) =>
        lane(i === task.lanes - 1 && slow.length > 0 ? slow : quick, random.fork()),
      )
      if (client.transaction !== undefined)
        lanes.push(transactions(client, journal, subjects, task.ttl, random.fork(), () => stopping))
      if (kept.length > 0) lanes.push(keepTaking(kept, task, random.fork(), () => stopping, take))
      await Promise.all(lanes)
      await Promise.all(besides)
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

/** Reports in hundreds. */
function count(): void {
  counted++
  if (counted % 100 === 0) send({ is: 'asked', more: 100 })
}

interface Take {
  readonly subject: Subject
  readonly subjects: readonly Subject[]
  /** In ms; 0: the lock goes back at once. */
  readonly linger: number
}

async function once(
  locks: Locks,
  journal: Recorder,
  { subject, subjects, linger }: Take,
  random: Chance,
): Promise<void> {
  const parts = subjects.filter(({ name }) => subject.of?.includes(name))
  const lock =
    parts.length > 0
      ? locks.all(parts.map((part) => createLock(locks, part, random)))
      : createLock(locks, subject, random)
  count()
  const lease = await acquireRandomly(lock, subject, random, { ttl: task.ttl, linger }).catch(expected)
  if (lease === undefined) return pause(random.between(0, 4))
  if (linger > 0) noteLinger(journal, lease, linger)
  await section(journal, subject, lease, random)
  await lease.release()
  if (random.next() < 0.2 && !task.brisk) await pause(random.between(0, 2))
}

async function section(journal: Recorder, subject: Subject, lease: Lease, random: Chance): Promise<void> {
  const hold = () => holdFor(subject, lease, random)
  if (subject.guarded !== true || random.next() >= 0.3) return hold()
  const about = { name: subject.name, attempt: getAttempt(lease), token: lease.token }
  await countUnder(journal, about, askGuard, hold)
}

async function holdFor({ slow }: Subject, lease: Lease, random: Chance): Promise<void> {
  const way = random.next()
  if (!slow) {
    // Now and then the event loop must turn, or nothing else in this process runs.
    if (task.brisk && way < 0.9) return
    if (task.brisk) return new Promise((resolve) => setImmediate(resolve))
    if (way < 0.25) await pause(random.between(0, 5))
    else await new Promise(setImmediate)
    return
  }
  const ms = way < 0.3 ? random.between(0.5, 2) * task.ttl : random.between(0, 0.2) * task.ttl
  await pause(ms / 3)
  if (random.next() < 0.5) await lease.extend(randomTerm(random, task.ttl, leastTerm)).catch(expected)
  await pause((2 * ms) / 3)
  while (!stopping && performance.now() < staysUntil) await pause(50)
}

function expected(error: { code?: unknown; name?: unknown }): undefined {
  const { code, name } = error
  const ordinary = ['ACQUIRE_TIMEOUT', 'BACKEND', 'UNAVAILABLE', 'LEASE_LOST']
  if (ordinary.includes(String(code)) || name === 'AbortError') return
  throw error
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
