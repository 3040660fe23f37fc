// An event loop that is blocked as an answer arrives, and time that passes meanwhile: a driver may judge a reply by it.
import assert from 'node:assert/strict'
import { type Clock, systemClock } from '../../../src/core/clock.js'
import { Engine, systemEnv } from '../../../src/core/engine.js'
import { createLocks, locksOver } from '../../../src/create-locks.js'
import type { DriverFactory, Locks } from '../../../src/index.js'
import { startProxy, type TcpProxy } from '../../support/proxy.js'
import { until } from '../../support/until.js'

interface MovableClock {
  readonly clock: Clock
  /** So many ms pass at once, and with them the time limits that end in them. */
  readonly pass: (ms: number) => void
}

interface Timer {
  readonly at: number
  readonly fire: () => void
  /** Sets it again after time has passed at once. */
  readonly arm: () => void
}

/** @param runs false: time stands still meanwhile, however slow the machine is, so no time limit ends by itself */
function movableClock(runs: boolean): MovableClock {
  const system = systemClock()
  const start = system.now()
  const timers = new Set<Timer>()
  let passed = 0
  const now = () => (runs ? system.now() : start) + passed
  const at: Clock['at'] = (at, fn, options) => {
    let cancel = () => {}
    const stop = () => {
      timers.delete(timer)
      cancel()
    }
    const fire = () => {
      stop()
      fn()
    }
    const arm = () => {
      cancel()
      if (runs) cancel = system.at(at - passed, fire, options)
    }
    const timer = { at, fire, arm }
    timers.add(timer)
    arm()
    return stop
  }
  const shortly: Clock['shortly'] = (fn) => {
    const handle = setImmediate(fn)
    return () => clearImmediate(handle)
  }
  const pass = (ms: number) => {
    passed += ms
    for (const timer of [...timers]) {
      if (!timers.has(timer)) continue
      if (timer.at <= now()) timer.fire()
      else timer.arm()
    }
  }
  return { clock: { ...system, now, at, shortly }, pass }
}

/** Nothing of this process runs for `ms`; what its servers send meanwhile stays in the sockets. */
function block(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
}

export interface Opened {
  readonly driver: DriverFactory
  readonly end: () => unknown
}

/** A store behind a cable, and a process whose event loop can be blocked. */
export interface Scene {
  readonly locks: Locks
  readonly pass: (ms: number) => void
  /** The event loop is blocked for `ms` as the answer arrives. It goes on with the timers, and reads the sockets after them. */
  stall<T>(ms: number, ask: () => Promise<T>): Promise<T>
  /** Events that report trouble. */
  readonly trouble: readonly string[]
}

export async function withScene(
  serverPort: number,
  open: (port: number) => Opened,
  work: (scene: Scene) => Promise<void>,
): Promise<void> {
  await using proxy = await startProxy({ port: serverPort })
  const { driver, end } = open(proxy.port)
  await using _ = { [Symbol.asyncDispose]: async () => void (await end()) }
  const { clock, pass } = movableClock(false)
  await using locks = locksOver(new Engine(driver, { ttl: 60_000 }, { ...systemEnv(), clock }))
  // Connected, and whatever is made once is made.
  await (await locks.mutex('first').acquire()).release()
  const stall = <T>(ms: number, ask: () => Promise<T>) => duringStall(proxy, () => pass(ms), ask)
  await work({ locks, pass, stall, trouble: troubleOf(locks) })
}

function troubleOf(locks: Locks): readonly string[] {
  const trouble: string[] = []
  for (const event of ['storeError', 'doubtful', 'lost'] as const)
    locks.on(event, (about) => trouble.push(`${event}: ${String((about as { error?: unknown }).error)}`))
  return trouble
}

/** The event loop is blocked as the answer arrives. It goes on with the timers that are due by then, and reads the sockets after them. */
export async function duringStall<T>(proxy: TcpProxy, due: () => void, ask: () => Promise<T>): Promise<T> {
  proxy.down.hold()
  const asked = ask()
  await proxy.down.holding()
  setTimeout(() => {
    proxy.down.pass()
    // The kernel has delivered it by then.
    block(50)
    due()
  })
  return asked
}

/** Extends a lease, and asks for the health of the store. The limit of the second extension ends with the stall, the others before. */
export async function countsForCalls({ locks, stall }: Scene): Promise<void> {
  const lease = await locks.mutex('kept').acquire({ autoRenew: false })
  assert.ok((await stall(16_000, () => lease.extend(80_000))) > 60_000)
  assert.ok((await stall(1_000, () => lease.extend(6_000))) > 4_000)
  assert.deepEqual([lease.state, lease.ttl], ['held', 6_000])
  assert.equal(await lease.release(), 'released')
  assert.equal((await stall(15_000, () => locks.health())).status, 'ok')
}

/** Releases a lease, and asks who has it. The stall is longer than any time limit. */
export async function countsForReleases({ locks, stall, trouble }: Scene): Promise<void> {
  const lease = await locks.mutex('released').acquire({ ttl: 100_000, autoRenew: false })
  assert.equal((await stall(20_000, () => locks.inspect('released'))).holders.length, 1)
  assert.equal(await stall(20_000, () => lease.release()), 'released')
  assert.deepEqual((await stall(20_000, () => locks.inspect('released'))).holders, [])
  assert.deepEqual(trouble, [])
}

/** A lease is renewed by itself. */
export async function countsForRenewals({ locks, pass, stall, trouble }: Scene): Promise<void> {
  const lease = await locks.mutex('renewed').acquire()
  let renewed = 0
  locks.on('renewed', () => renewed++)
  // The timetable has it by then.
  await new Promise(setImmediate)
  await stall(15_000, async () => pass(22_000))
  await until(() => renewed === 1)
  assert.deepEqual(trouble, [])
  assert.ok(lease.remaining() > 30_000)
  // Blocked again before the request has left.
  pass(17_000)
  pass(15_000)
  await until(() => renewed === 2)
  assert.deepEqual(trouble, [])
  assert.ok(lease.isHeld)
  assert.equal(await lease.release(), 'released')
}

/** A grant that arrives during a stall longer than the wait. */
export async function countsForWaits({ locks, stall, trouble }: Scene): Promise<void> {
  const lease = await stall(3_000, () => locks.mutex('waited').acquire({ wait: 1_600 }))
  assert.ok(lease.isHeld)
  assert.deepEqual(trouble, [])
  assert.equal(await lease.release(), 'released')
}

/** A single attempt meets a cached lock, and the event loop is blocked while it waits for its holder to release it. */
export async function countsForCachedLocks({ driver, end }: Opened): Promise<void> {
  await using _ = { [Symbol.asyncDispose]: async () => void (await end()) }
  const { clock, pass } = movableClock(true)
  await using holders = createLocks(driver, { ttl: 60_000 })
  await using locks = locksOver(new Engine(driver, { ttl: 60_000 }, { ...systemEnv(), clock }))
  const trouble = troubleOf(locks)
  const cached = holders.mutex('cached')
  await until(async () => {
    await (await cached.acquire({ linger: 600_000 })).release()
    return (await holders.inspect('cached')).holders.length === 1
  })
  let stalls = 0
  const stall = () => {
    block(50)
    pass(8_000)
  }
  // The first reply names the holder: the attempt asks again, as a waiter, and is blocked with that request under way.
  locks.on('waiting', () => {
    if (stalls++ === 0) setImmediate(() => setImmediate(stall))
  })
  const attempt = locks.mutex('cached').tryAcquire()
  // So long a round trip makes the attempt wait for 4 s, enough for the slowest machine.
  pass(1_000)
  const lease = await attempt
  assert.ok(stalls > 0)
  assert.ok(lease, 'the lock was reported as not free')
  assert.deepEqual(trouble, [])
  assert.equal(await lease.release(), 'released')
}
