/** What every test of the suite stands on: clients, names of its own, patience, and a check that nothing is left. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { createLocks, type DriverFactory, type Lock, type Locks } from 'holdfast'
import type { Claim, Driver, Env, Wait } from 'holdfast/driver'
import type { Fixture } from './fixture.js'

/** One client with what is behind it: the tests of single messages talk to the driver itself. */
export interface Client {
  readonly locks: Locks
  readonly driver: Driver
  readonly env: Env
  /** As the fixture made it, for `cut`. */
  readonly factory: DriverFactory
  /** How often the core has asked the driver for a grant. */
  readonly asked: () => number
}

export class Stage {
  readonly fixture: Fixture
  /** Short: for what is meant to run out. Everything else uses the default, so that a slow machine loses nothing. */
  readonly ttl: number
  readonly patience: number
  readonly #clients: Client[] = []
  readonly #names: string[] = []
  readonly #cleanups: (() => Promise<void> | void)[] = []

  constructor(fixture: Fixture) {
    this.fixture = fixture
    this.ttl = Math.max(fixture.ttl ?? 500, fixture.traits.minTtl)
    this.patience = fixture.patience ?? 5_000
  }

  client(): Client {
    const client = openClient(this.fixture.make())
    this.#clients.push(client)
    return client
  }

  /** A name nobody else uses; the end of the test checks that nobody holds it or waits for it. */
  name(label = 'x'): string {
    const name = `${label} ${randomBytes(6).toString('hex')}`
    this.#names.push(name)
    return name
  }

  /** Runs when the test is over, before the clients are closed. */
  cleanup(fn: () => Promise<void> | void): void {
    this.#cleanups.push(fn)
  }

  async cut(client: Client): Promise<void> {
    await this.fixture.breakage.cut(client.factory)
  }

  async heal(): Promise<void> {
    await this.fixture.breakage.heal()
  }

  /** Looks again until it is so. @throws Error naming `what` after `within` ms */
  async until(
    what: string,
    condition: () => boolean | Promise<boolean>,
    within: number = this.patience,
  ): Promise<void> {
    const deadline = performance.now() + within
    while (!(await condition())) {
      if (performance.now() > deadline) throw new Error(`waited ${within} ms in vain: ${what}`)
      await pause(5)
    }
  }

  /** Resolves once `count` stand in line for `name`. */
  async inLine(client: Client, name: string, count: number): Promise<void> {
    const waiting = async () => (await client.locks.inspect(name)).waiters.length >= count
    await this.until(`${count} in line for ${name}`, waiting)
  }

  /** Rejects unless `promise` settles in time. */
  async soon<T>(what: string, promise: Promise<T>, within: number = this.patience): Promise<T> {
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(new Error(`waited ${within} ms in vain: ${what}`)), within)
    })
    return Promise.race([promise, late]).finally(() => clearTimeout(timer))
  }

  /** Nobody holds `name`: another client gets it at once. Leaves it free. */
  async assertFree(client: Client, name: string): Promise<void> {
    await this.until(`${name} to be free`, async () => {
      const lease = await client.locks.mutex(name).tryAcquire()
      await lease?.release()
      return lease !== undefined
    })
  }

  /** Somebody holds `name`: another client does not get it. */
  async assertTaken(client: Client, name: string): Promise<void> {
    const lease = await client.locks.mutex(name).tryAcquire()
    await lease?.release()
    assert.equal(lease, undefined, `${name} is free, it should be held`)
  }

  /** @throws Error when something of this test is left in the store once its time is over */
  async close(): Promise<void> {
    await this.heal()
    for (const cleanup of this.#cleanups.reverse()) await cleanup()
    await Promise.all(this.#clients.map((client) => client.locks.close()))
    if (this.#names.length === 0) return
    const after = openClient(this.fixture.make())
    try {
      for (const name of this.#names) await this.#assertNothingLeft(after, name)
    } finally {
      await after.locks.close()
    }
  }

  async #assertNothingLeft(client: Client, name: string): Promise<void> {
    let left = ''
    const isFree = async () => {
      const { holders, waiters } = await client.locks.inspect(name)
      const held = holders.filter((holder) => holder.expiresIn > 0)
      left = JSON.stringify({ held, waiters })
      return held.length + waiters.length === 0
    }
    await this.until(
      `nothing of ${name} to be left in the store`,
      isFree,
      2 * this.ttl + this.patience,
    ).catch((error) => {
      throw new Error(`${error.message}; there still is ${left}`)
    })
  }
}

function openClient(factory: DriverFactory): Client {
  let asked = 0
  const opened: { driver?: Driver; env?: Env } = {}
  const locks = createLocks((env) => {
    const driver = factory(env)
    Object.assign(opened, { driver, env })
    const { list, forceRelease } = driver
    return {
      name: driver.name,
      traits: driver.traits,
      acquire: (claim, wait) => {
        asked++
        return driver.acquire(claim, wait)
      },
      inspect: (name) => driver.inspect(name),
      ...(list !== undefined && { list: (prefix: string) => list.call(driver, prefix) }),
      ...(forceRelease !== undefined && { forceRelease: (name: string) => forceRelease.call(driver, name) }),
      close: () => driver.close(),
    }
  })
  const { driver, env } = opened
  if (driver === undefined || env === undefined) throw new Error('createLocks made no driver')
  return { locks: quiet(locks), driver, env, factory, asked: () => asked }
}

/**
 * A test that fails leaves promises behind, which reject when its clients are closed. They must not hide why it failed.
 */
function quiet(locks: Locks): Locks {
  const handled = <T>(promise: Promise<T>): Promise<T> => {
    promise.catch(() => undefined)
    return promise
  }
  const wrap = (lock: Lock): Lock => ({
    name: lock.name,
    acquire: (options) => handled(lock.acquire(options)),
    tryAcquire: (options) => handled(lock.tryAcquire(options)),
    run: (fn, options) => handled(lock.run(fn, options)),
  })
  return {
    ...locks,
    mutex: (name) => wrap(locks.mutex(name)),
    semaphore: (name, options) => wrap(locks.semaphore(name, options)),
    readWrite: (name) => {
      const { read, write } = locks.readWrite(name)
      return { name, read: wrap(read), write: wrap(write) }
    },
  }
}

/** A claim made by hand, with an attempt id of its own. */
export function claimOf(client: Client, name: string, more: Partial<Claim> = {}): Claim {
  const fair = client.driver.traits.fair
  return { name, attempt: client.env.id(), mode: { kind: 'exclusive' }, fair, ttl: 30_000, ...more }
}

/** A wait made by hand: without end until `end()` is called, or a single attempt. */
export function waitOf(how: 'once' | 'long' = 'long'): Wait & { end(): void } {
  const controller = new AbortController()
  return {
    signal: controller.signal,
    get over() {
      return controller.signal.aborted
    },
    remaining: () => (how === 'once' || controller.signal.aborted ? 0 : 60_000),
    end: () => controller.abort(),
  }
}

export const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

/** The event loop stands still: no timer, no I/O. */
export function block(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
}
