// Long because a run, from its start to its verdict, reads best in one piece.
/** Plays a plan in a world of its own, and judges the result. */
import type { AcquireOptions, Lease, Lock, Locks } from 'holdfast'
import {
  check,
  createHistory,
  type Entry,
  type Event,
  fatalFault,
  type History,
  type Recorder,
  recordLocks,
  type Violation,
} from 'holdfast/verify'
import { createLocksIn } from '../../test/support/inside.js'
import { type Caching, judgeCaching } from './caching.js'
import { type Fault, type Plan, permitsOfAll, type Visit } from './plan.js'
import { makeProcess, type SimulatedProcess } from './process.js'
import { isRefusalExplained } from './single-attempts.js'
import type { SimulatedStore, StoreKind } from './stores/store.js'
import { makeWorld, type World } from './world.js'

export interface Outcome {
  readonly history: History
  readonly violations: readonly Violation[]
  /** Other findings: a waiter for whom nothing will ever happen, leftovers, an unexpected error. */
  readonly complaints: readonly string[]
  /** The outcome of lock caching. */
  readonly caching: Caching
  /** How many findings the driver's page admits: they are not among the violations. */
  readonly admitted: number
}

interface Actor {
  readonly process: SimulatedProcess
  readonly locks: Locks
}

/** The fields of an event that an entry lacks. */
interface Made {
  t: number
  pid: number
  client: string
  until?: number | bigint
}

type Actors = ReadonlyMap<number, Actor>

/** The longest that a world runs, in ms. */
const worldEnds = 120_000

export async function play(plan: Plan, kind: StoreKind): Promise<Outcome> {
  const world = makeWorld(plan.seed)
  const store = kind.make(world)
  const events: Event[] = []
  const complaints: string[] = []
  const actors = new Map<number, Actor>()
  const open = new Set<Visit>(plan.visits)
  for (const visit of plan.visits) {
    const { process: id } = visit
    // A process without visits would only connect and close.
    const actor = actors.get(id) ?? makeActor(world, plan, store, id, events)
    actors.set(id, actor)
    begin(plan, actor, visit, open, complaints)
  }
  const forgets = plan.faults.some(({ kind }) => ['restart', 'restartOlder', 'flush'].includes(kind))
  for (const fault of plan.faults) {
    // A server that loses its data and its time cannot recognise an old token: the drivers' pages say so.
    if (forgets && fault.kind === 'clockBack') continue
    world.at(fault.at, () => injectFault(world, store, actors, fault, events))
  }
  // Called after every event, so it allocates nothing.
  const closes = Math.max(plan.closes, ...plan.faults.map(({ at }) => at + 1))
  const over = () => {
    if (world.now < closes) return false
    for (const { process } of open) if (isAlive(actors, process)) return false
    return true
  }
  world.at(closes, () => undefined)
  const ended = await world.run(over, worldEnds)
  if (ended !== 'done')
    complaints.push(
      `somebody waits for ever: ${ended === 'idle' ? 'nothing will happen any more' : 'two minutes have passed'}`,
    )
  else await close(world, kind, store, actors, complaints)
  store.end?.()
  const history = createHistory(events)
  // A queue entry is lost with the connection, and a stopped clock makes its process late; a request for two locks that gives
  // up cancels only when the first lock is released.
  const inOrder = plan.faults.length === 0 && plan.visits.every(({ name }) => name < 2)
  const found = check(history, {
    guard: false,
    witness: false,
    leaks: false,
    // A server that may have forgotten locks reports all of them as not free.
    falseBusy: forgets ? false : { lag: 3_000 },
    fifo: inOrder ? {} : false,
    liveness: { within: kind.liveWithin },
  })
  const promised = found.filter((one) => store.excuses?.(one) !== true)
  const unexplained = promised.filter(
    ({ rule, parties }) => rule !== 'false-busy' || !parties.every((one) => isRefusalExplained(one, history)),
  )
  const { violations, ...caching } = judgeCaching(
    plan,
    history,
    unexplained,
    (id) => store.breaks?.(id) ?? [],
  )
  complaints.push(...caching.complaints)
  return { history, violations, complaints, caching, admitted: found.length - promised.length }
}

const isAlive = (actors: Actors, process: number) => actors.get(process)?.process.alive === true

function makeActor(world: World, plan: Plan, store: SimulatedStore, id: number, events: Event[]): Actor {
  const process = makeProcess(world, id, 1 + (plan.rates[id] ?? 0) / 1_000, plan.seed + id + 1)
  const locks = createLocksIn(process.env, store.driver(process))
  return { process, locks: recordLocks(locks, createRecorder(world, process, events)) }
}

function begin(plan: Plan, actor: Actor, visit: Visit, open: Set<Visit>, complaints: string[]): void {
  actor.process.hears(visit.at, () => {
    arrive(plan, actor, visit).then(
      () => open.delete(visit),
      (error: unknown) => {
        open.delete(visit)
        if (!expected(error)) complaints.push(`an error nobody expects: ${(error as Error).stack}`)
      },
    )
  })
}

/** Delays, crashes, partitions and forced releases are part of the plan. */
function expected(error: unknown): boolean {
  const { code } = error as { code?: unknown }
  return code === 'ACQUIRE_TIMEOUT' || code === 'LEASE_LOST' || error === gone || isStoreError(error)
}

/** The store could not be used. */
function isStoreError(error: unknown): error is Error {
  const { code } = error as { code?: unknown }
  return code === 'BACKEND' || code === 'UNAVAILABLE'
}

/**
 * How long a visit waits for a reply before it may end without one, in ms by its own clock. A single attempt with a short ttl
 * ends before the slowest network replies.
 */
function longestSilence({ wait, ttl }: Visit): number {
  if (wait < 0) return Number.POSITIVE_INFINITY
  // Its timer may fire early by the rounding error of a sum of readings.
  return (wait > 0 ? wait : ttl / 10) - 0.001
}

const gone = new Error('does not want it any more')

async function arrive(plan: Plan, actor: Actor, visit: Visit): Promise<void> {
  const lock = createLock(plan, actor.locks, visit)
  const { returns = 0, pause = 0 } = visit
  for (let n = 0; n <= returns; n++) {
    if (n > 0) await sleep(actor.process, pause)
    await come(plan, actor, lock, visit)
  }
}

async function come(plan: Plan, { process }: Actor, lock: Lock, visit: Visit): Promise<void> {
  const asked = process.clock.now()
  const lease = await take(plan, lock, visit, goesAfter(process, visit.abort)).catch((error: unknown) => {
    const waited = process.clock.now() - asked
    if (plan.faults.length > 0 || !isStoreError(error) || waited >= longestSilence(visit)) throw error
    throw new Error(`no answer after ${waited.toFixed(1)} ms, though nothing was wrong: ${error.message}`)
  })
  if (lease === undefined) return
  if (visit.leaves === 'extend, release') {
    await sleep(process, visit.stay / 2)
    await lease.extend(visit.ttl).catch((error: unknown) => {
      if (!expected(error)) throw error
    })
    await sleep(process, visit.stay / 2)
  } else await sleep(process, visit.stay)
  if (visit.leaves !== 'abandon') await lease.release()
}

/** Expensive, and there are millions of visits: created only for visits that may abort. */
function goesAfter({ clock }: SimulatedProcess, ms: number): AbortSignal | undefined {
  if (ms < 0) return undefined
  const controller = new AbortController()
  clock.at(clock.now() + ms, () => controller.abort(gone))
  return controller.signal
}

function createLock(plan: Plan, locks: Locks, visit: Visit): Lock {
  const { lock } = plan
  const { name, shared } = visit
  if (name === 2) return locks.all([0, 1].map((one) => createLock(plan, locks, { ...visit, name: one })))
  const called = `lock ${name}`
  if (lock === 'mutex') return locks.mutex(called)
  if (lock === 'semaphore') return locks.semaphore(called, { permits: permitsOfAll })
  return shared ? locks.readWrite(called).read : locks.readWrite(called).write
}

function take(
  plan: Plan,
  lock: Lock,
  visit: Visit,
  signal: AbortSignal | undefined,
): Promise<Lease | undefined> {
  const { wait, ttl, fair, permits, leaves, linger = 0 } = visit
  const options: AcquireOptions = {
    ttl,
    ...(signal !== undefined && { signal }),
    reentrant: false,
    autoRenew: leaves !== 'abandon',
    ...(plan.lock === 'semaphore' && { permits }),
    ...(linger > 0 && { linger }),
  }
  if (wait === 0) return lock.tryAcquire(options)
  return lock.acquire({ ...options, fair, wait: wait < 0 ? Number.POSITIVE_INFINITY : wait })
}

function sleep({ clock }: SimulatedProcess, ms: number): Promise<void> {
  return new Promise((resolve) => void clock.at(clock.now() + ms, resolve))
}

function injectFault(
  world: World,
  store: SimulatedStore,
  actors: Actors,
  { kind, process: id, ms }: Fault,
  events: Event[],
): void {
  const process = actors.get(id)?.process
  if (process === undefined || !process.alive) return
  const about = { pid: id, client: 'faults', op: 'fault', attempt: `fault ${events.length}` } as const
  const note = (phase: 'invoke' | 'ok', kind: string, target?: number) =>
    events.push({ ...about, t: world.now * 1e6, phase, kind, ...(target !== undefined && { target }) })
  const last = (kind: string, target?: number) => {
    note('invoke', kind, target)
    world.at(world.now + ms, () => note('ok', kind, target))
  }
  if (kind === 'kill') {
    process.kill()
    store.killed(process)
    note('invoke', fatalFault, id)
    note('ok', fatalFault, id)
  } else if (kind === 'force') {
    // By an operator, through that process.
    void actors
      .get(id)
      ?.locks.forceRelease('lock 0')
      .catch(() => undefined)
    last(kind)
  } else if (kind === 'stall' || kind === 'sleep') {
    process[kind](ms)
    last(kind, id)
  } else {
    store.faults[kind]?.(ms, process)
    last(kind)
  }
}

/** All clients close; then they may leave nothing behind, neither timers here nor holds in the store. */
async function close(
  world: World,
  kind: StoreKind,
  store: SimulatedStore,
  actors: Actors,
  complaints: string[],
): Promise<void> {
  const alive = [...actors.values()].filter(({ process }) => process.alive)
  let closed = 0
  for (const { locks } of alive) void locks.close().then(() => closed++)
  const ended = await world.run(() => closed === alive.length, world.now + worldEnds)
  if (ended !== 'done')
    complaints.push(`close() does not end: ${alive.length - closed} of ${alive.length} are left`)
  // Holds that nobody could release expire.
  const end = world.now + kind.liveWithin
  world.at(end, () => undefined)
  await world.run(() => world.now >= end, end)
  for (const { process } of alive)
    if (process.timers > 0)
      complaints.push(`process ${process.id} has ${process.timers} timers left after close()`)
  for (const name of store.left())
    complaints.push(`'${name}' is still held or waited for after everybody has closed`)
}

function createRecorder(world: World, process: SimulatedProcess, events: Event[]): Recorder {
  const client = `process ${process.id}`
  const nanos = () => Math.round(world.now * 1e6)
  const { id: pid, rate } = process
  return {
    client,
    now: () => BigInt(nanos()),
    write(entry, time) {
      const t = time === undefined ? nanos() : Number(time)
      // Created for this call alone, so it may be reused as the event.
      const event = entry as Omit<Entry, 'until'> & Made
      event.t = t
      event.pid = pid
      event.client = client
      // Given in milliseconds of a clock that runs at a slightly different rate from the world's.
      if (event.until !== undefined) event.until = t + (Number(event.until) - t) / rate
      events.push(event as Event)
    },
    fault: () => () => undefined,
    close: () => undefined,
  }
}
