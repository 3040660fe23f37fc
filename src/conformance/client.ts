/** A client of the store with its internals, and claims and waits for tests that use the driver directly. */
import { createLocks, type DriverFactory, type Lock, type Locks, type MultiLock } from 'holdfast'
import type { Cells, Claim, Driver, Env, Grant, Wait, WaitStatus } from 'holdfast/driver'

export interface Client {
  readonly locks: Locks
  readonly driver: Driver
  readonly env: Env
  /** As the fixture created it, for `cut`. */
  readonly factory: DriverFactory
  /** Number of times the core has asked the driver for a grant. */
  readonly asked: () => number
  /** Number of this client's claims that were told the holder of `name` and still wait. Counted only if the store keeps no queue. */
  readonly waiting: (name: string) => number
  /** Does its newest grant of `name` know that others wait? Counts as true for a driver that cannot report it. */
  readonly contended: (name: string) => boolean
}

export function openClient(factory: DriverFactory): Client {
  let asked = 0
  const waits = new Waits()
  const grants = new Map<string, Grant>()
  const opened: { driver?: Driver; env?: Env } = {}
  const locks = createLocks((env) => {
    const made = factory(env)
    const driver = made.traits.queue === false ? waits.of(made) : made
    Object.assign(opened, { driver, env })
    const { list, forceRelease, cells, acquireMany } = driver
    return {
      name: driver.name,
      traits: driver.traits,
      acquire: (claim, wait) => {
        asked++
        const answer = driver.acquire(claim, wait)
        answer.then(
          (grant) => grant && grants.set(claim.name, grant),
          () => undefined,
        )
        return answer
      },
      ...(acquireMany !== undefined && {
        acquireMany: (claims: readonly Claim[], wait: Wait) => {
          asked++
          return acquireMany.call(driver, claims, wait)
        },
      }),
      inspect: (name) => driver.inspect(name),
      ...(list !== undefined && { list: (prefix: string) => list.call(driver, prefix) }),
      ...(forceRelease !== undefined && { forceRelease: (name: string) => forceRelease.call(driver, name) }),
      ...(cells !== undefined && { cells }),
      close: () => driver.close(),
    }
  })
  const { driver, env } = opened
  if (driver === undefined || env === undefined) throw new Error('createLocks made no driver')
  return {
    locks: quiet(locks),
    driver,
    env,
    factory,
    asked: () => asked,
    waiting: (name) => waits.count(name),
    contended: (name) => grants.get(name)?.contended?.() ?? true,
  }
}

/** What the store does not keep: the waiting claims of a client, each from the first report of the holder until its reply. */
class Waits {
  readonly #names = new Map<object, string>()

  of(driver: Driver): Driver {
    return { ...driver, acquire: (claim, wait) => this.#acquire(driver, claim, wait) }
  }

  count(name: string): number {
    return [...this.#names.values()].filter((other) => other === name).length
  }

  #acquire(driver: Driver, claim: Claim, wait: Wait): Promise<Grant | undefined> {
    const told: Wait = {
      get signal() {
        return wait.signal
      },
      get ended() {
        return wait.ended
      },
      remaining: () => wait.remaining(),
      report: (by: WaitStatus) => {
        if (by.holder !== undefined) this.#names.set(told, claim.name)
        wait.report?.(by)
      },
    }
    return driver.acquire(claim, told).finally(() => this.#names.delete(told))
  }
}

/**
 * A failed test leaves promises behind, which reject when its clients are closed. They must not hide why it failed.
 */
function quiet(locks: Locks): Locks {
  const handled = <T>(promise: Promise<T>): Promise<T> => {
    promise.catch(() => undefined)
    return promise
  }
  /** `all()` accepts only locks of the library itself. */
  const wrapped = new WeakMap<Lock, Lock>()
  const wrap = (lock: Lock): Lock => {
    const outer: Lock = {
      name: lock.name,
      acquire: (options) => handled(lock.acquire(options)),
      tryAcquire: (options) => handled(lock.tryAcquire(options)),
      run: (fn, options) => handled(lock.run(fn, options)),
      waitUntilFree: (options) => handled(lock.waitUntilFree(options)),
    }
    wrapped.set(outer, lock)
    return outer
  }
  const all = (parts: readonly Lock[]): MultiLock => {
    const lock = locks.all(parts.map((part) => wrapped.get(part) ?? part))
    return {
      name: lock.name,
      acquire: (options) => handled(lock.acquire(options)),
      tryAcquire: (options) => handled(lock.tryAcquire(options)),
      run: (fn, options) => handled(lock.run(fn, options)),
      waitUntilFree: (options) => handled(lock.waitUntilFree(options)),
    }
  }
  return {
    ...locks,
    all,
    mutex: (name, defaults) => wrap(locks.mutex(name, defaults)),
    semaphore: (name, options) => wrap(locks.semaphore(name, options)),
    readWrite: (name, defaults) => {
      const { read, write } = locks.readWrite(name, defaults)
      return { name, read: wrap(read), write: wrap(write) }
    },
  }
}

/** The driver's own cells. @throws Error if it has none although its traits say so */
export function getCells(client: Client): Cells {
  const { cells, name } = client.driver
  if (cells === undefined) throw new Error(`${name} has the trait cells, but no cells`)
  return cells
}

/** Does `meanwhile` once, before the next look of this client at the holders of a name; `skip`: that many looks later. */
export function beforeInspect({ driver }: Client, meanwhile: () => Promise<void>, skip = 0): void {
  const { inspect } = driver
  let left = skip
  driver.inspect = async (name) => {
    if (left-- === 0) {
      driver.inspect = inspect
      await meanwhile()
    }
    return inspect.call(driver, name)
  }
}

/** A hand-made claim, with its own attempt id. */
export function createClaim(client: Client, name: string, more: Partial<Claim> = {}): Claim {
  const fair = client.driver.traits.fair
  return { name, attempt: client.env.id(), mode: { kind: 'exclusive' }, fair, ttl: 30_000, ...more }
}

/** A hand-made wait: endless until `end()` is called, or a single attempt. */
export function createWait(how: 'once' | 'long' = 'long'): Wait & { end(): void } {
  const controller = new AbortController()
  return {
    signal: controller.signal,
    get ended() {
      return controller.signal.aborted
    },
    remaining: () => (how === 'once' || controller.signal.aborted ? 0 : 60_000),
    end: () => controller.abort(),
  }
}
