/**
 * `createLocks(driver)`: the object that users keep. It makes locks; each lock makes leases.
 *
 * Long because every method of `Locks` is documented in one place.
 */
import type { Lock } from './core/acquire.js'
import type { DriverFactory, LockStatus, Traits } from './core/driver.js'
import { Engine, systemEnv } from './core/engine.js'
import { UnsupportedError } from './core/errors.js'
import type { LockEvent, LockEvents } from './core/events.js'
import { type Health, type HealthOptions, Prober } from './core/health.js'
import { type LeakWarningOptions, leakTerms } from './core/leaks.js'
import type { Lease } from './core/lease.js'
import type { ModeKind } from './core/mode.js'
import { checkName, describe } from './core/name.js'
import { checkOptions, type Defaults, type ParticipantDefaults } from './core/options.js'
import { isCurrent } from './core/token-check.js'
import { type Barrier, barrier } from './locks/barrier.js'
import { type Election, election } from './locks/election.js'
import { type Job, type JobOptions, job } from './locks/job.js'
import { type Latch, latch } from './locks/latch.js'
import { all, type MultiLock } from './locks/multi-lock.js'
import { mutex } from './locks/mutex.js'
import { type OnceOptions, once } from './locks/once.js'
import { type Pool, type PoolOptions, pool } from './locks/pool.js'
import { type ReadWriteLock, readWrite } from './locks/read-write.js'
import {
  onRevoke,
  type RevokeOptions,
  type RevokeOutcome,
  type RevokeRequest,
  revoke,
} from './locks/revoke.js'
import { type SemaphoreOptions, semaphore } from './locks/semaphore.js'
import { type AdoptOptions, adoptLease, exportLease } from './locks/transfer.js'
import { type UpgradeableLock, upgradeable } from './locks/upgradeable.js'

/** What a driver may support: a mode, small values beside the locks, a hold that moves to another process. */
export type Ability = ModeKind | 'cells' | 'portable'

/** The abilities that the traits of a driver name. */
export type AbilitiesOf<T extends Traits> =
  | T['modes'][number]
  // A driver whose traits are unknown may support it: the call itself then finds out.
  | (T extends { readonly cells: true } ? 'cells' : Traits extends T ? 'cells' : never)
  | (T extends { readonly portable: true } ? 'portable' : Traits extends T ? 'portable' : never)

/** `Yes` where the driver's type declares the ability; otherwise a call does not compile. */
type If<Known extends Ability, Needed extends Ability, Yes> = [Needed] extends [Known]
  ? Yes
  : (name: never) => never

export interface LocksOptions extends Defaults {
  /**
   * Report leases that were probably forgotten, once each, as the event `leaked` and as a process warning with the
   * code `HOLDFAST_LEAK`: those that the garbage collector finds without a release, and those held much longer than
   * their name usually is. Costs a stack trace for each acquisition. @default true if NODE_ENV is `development`
   */
  readonly leakWarning?: boolean | LeakWarningOptions
}

/** `Known`: the abilities of the driver, so that what it does not support does not compile. */
export interface Locks<Known extends Ability = Ability> extends AsyncDisposable {
  /** The driver's name and abilities. */
  readonly driver: { readonly name: string; readonly traits: Traits }
  /**
   * One holder at a time. `defaults`, here and below: for this lock, over those of `createLocks`. @throws TypeError,
   * RangeError for a bad name or options
   */
  mutex(name: string, defaults?: Defaults): Lock
  /** Many readers or one writer. */
  readonly readWrite: If<Known, 'shared', (name: string, defaults?: Defaults) => ReadWriteLock>
  /** At most n holders. */
  readonly semaphore: If<Known, 'permits', (name: string, options: SemaphoreOptions) => Lock>
  /**
   * Runs `fn` at most once at a time for `key`; all other callers get its result or its error, also for `keep` ms
   * after. The result is what JSON makes of it, at most 64 KiB. The caller that runs `fn` holds the lock named `key`.
   * @throws what `fn` threw, in this process or another (then an `Error` of the same name, message and code);
   * LeaseLostError with `result` when the lease was lost before the result was kept; TypeError, RangeError for a
   * result that cannot be kept; as `acquire`
   */
  readonly once: If<
    Known,
    'cells',
    <R>(key: string, fn: (lease: Lease) => R | PromiseLike<R>, options?: OnceOptions) => Promise<R>
  >
  /** One leader, visible to everybody. @throws TypeError, RangeError for a bad name; UnsupportedError */
  readonly election: If<Known, 'cells', (name: string, defaults?: Defaults) => Election>
  /** Closed until it has been counted down, then open for all waiters. @throws TypeError, RangeError for a bad name; UnsupportedError */
  readonly latch: If<Known, 'cells', (name: string, defaults?: ParticipantDefaults) => Latch>
  /** Nobody goes on before `parties` have arrived. @throws TypeError, RangeError for bad arguments; UnsupportedError */
  readonly barrier: If<
    Known,
    'cells' | 'shared',
    (name: string, parties: number, defaults?: ParticipantDefaults) => Barrier
  >
  /** A scheduled job that many hosts start and one runs. @throws TypeError, RangeError for bad arguments */
  job(name: string, options?: JobOptions): Job
  /** A semaphore that can be resized while it is used, and reports its holders. @throws TypeError, RangeError; UnsupportedError */
  readonly pool: If<Known, 'cells' | 'shared', (name: string, options: PoolOptions) => Pool>
  /** Readers, writers, and one reader that may become a writer. @throws TypeError, RangeError for a bad name; UnsupportedError */
  readonly upgradeable: If<Known, 'shared', (name: string, defaults?: Defaults) => UpgradeableLock>
  /** Several locks, all or nothing; also from other `createLocks`. */
  all(locks: readonly Lock[]): MultiLock
  /** The holders and waiters of `name`, since when, and with what note. */
  inspect(name: string): Promise<LockStatus>
  /**
   * Asks the store whether `token` belongs to a present holder of `name`: for a receiver of a token that keeps none
   * to compare it with. True means that nobody came after it before the store replied; a write that follows is
   * another step, so where the write goes to the store itself, the store's own condition is better: see
   * docs/guard.md.
   * @throws UnsupportedError when a lock with `linger` is held by another process: only that one knows which of its
   * tokens is in use; TypeError, RangeError for what is no token; BackendError
   */
  check(fence: { readonly name: string; readonly token: number }): Promise<boolean>
  /** Everything with a holder or waiter whose name begins with `prefix`. @throws UnsupportedError */
  list(prefix?: string): Promise<readonly LockStatus[]>
  /** Force-releases the lock; resolves with the number of holds ended. @throws UnsupportedError */
  forceRelease(name: string): Promise<number>
  /**
   * Asks the holder of `name` to give way, waits for `grace` ms, then takes the lock by force. @throws
   * UnsupportedError, BackendError; TypeError, RangeError for bad options; the reason of `signal`
   */
  readonly revoke: If<Known, 'cells', (name: string, options?: RevokeOptions) => Promise<RevokeOutcome>>
  /**
   * Calls `listener` when this lease is asked to give way, until the lease ends. Returns a function that removes the
   * listener. Until then this process watches a cell for it. @throws TypeError, UnsupportedError
   */
  readonly onRevoke: If<
    Known,
    'cells',
    (lease: Lease, listener: (asked: RevokeRequest) => void) => () => void
  >
  /**
   * Turns a lease into a ticket, and the lease is over here; another process adopts it within its ttl, exactly once.
   * Anybody with the ticket can adopt it. @throws LeaseLostError, UnsupportedError, BackendError; TypeError for what
   * is no plain lease
   */
  readonly export: If<Known, 'cells' | 'portable', (lease: Lease) => Promise<string>>
  /**
   * The lease of a ticket, with its token. @throws LeaseLostError when it was adopted before or has expired;
   * TypeError, UnsupportedError, BackendError
   */
  readonly adopt: If<Known, 'cells' | 'portable', (ticket: string, options?: AdoptOptions) => Promise<Lease>>
  /**
   * Can this store grant now? Acquires `holdfast:health`, which the store answers like any acquisition, and releases
   * it; calls that come meanwhile share the result. Resolves for a store that is down, too. @throws TypeError,
   * RangeError for bad options
   */
  health(options?: HealthOptions): Promise<Health>
  /**
   * Reads one name from the store and resolves with the time that took, in ms; tells nothing about grants. @throws
   * BackendError, with code `UNAVAILABLE` when there is no reply within `timeout`
   */
  ping(options?: HealthOptions): Promise<number>
  /** Calls `listener` on every such event; returns a function that removes it. */
  on<E extends LockEvent>(event: E, listener: (event: LockEvents[E]) => void): () => void
  /** Rejects all waiters, releases all holds, closes the driver. Idempotent. The client passed to a driver stays open. */
  close(): Promise<void>
}

/**
 * Makes locks over one store. No I/O happens before the first acquisition.
 * @param driver `memory()`, `local()`, `redis({ client })`, …
 * @param options defaults for every lock made from it (the built-in ones are those of `AcquireOptions`), and
 * `leakWarning`
 * @throws TypeError, RangeError for bad options; UnsupportedError for a default the driver cannot meet.
 */
export function createLocks<T extends Traits>(
  driver: DriverFactory<T>,
  options?: LocksOptions,
): Locks<AbilitiesOf<T>> {
  if (typeof driver !== 'function') {
    throw new TypeError(`createLocks takes a driver such as memory() or local(), got ${describe(driver)}`)
  }
  checkOptions(options)
  const { leakWarning, ...defaults } = options ?? {}
  const engine = new Engine(driver, options && defaults, systemEnv(), leakTerms(leakWarning))
  return locksOver<AbilitiesOf<T>>(engine)
}

/** The same over an engine whose clock and randomness are given: for simulation. */
export function locksOver<Known extends Ability>(engine: Engine): Locks<Known> {
  const { driver } = engine
  const prober = new Prober(engine)
  const missing = (ability: string) =>
    new UnsupportedError(driver.name, ability, 'use the tools of the store itself')
  const locks: Locks = {
    driver: { name: driver.name, traits: driver.traits },
    mutex: (name, defaults) => mutex(engine, name, defaults),
    readWrite: (name, defaults) => readWrite(engine, name, defaults),
    semaphore: (name, options) => semaphore(engine, name, options),
    latch: (name, defaults) => latch(engine, name, defaults),
    barrier: (name, parties, defaults) => barrier(engine, name, parties, defaults),
    pool: (name, options) => pool(engine, name, options),
    upgradeable: (name, defaults) => upgradeable(engine, name, defaults),
    job: (name, options) => job(engine, name, options),
    election: (name, defaults) => election(engine, name, defaults),
    once: (key, fn, options) => once(engine, key, fn, options),
    all: (parts) => all(engine, parts),
    inspect: async (name) => {
      engine.assertOpen()
      return engine.asked('inspect', name, driver.inspect(checkName(name)))
    },
    check: async (fence) => {
      engine.assertOpen()
      return engine.asked('check', fence?.name, isCurrent(engine, fence))
    },
    list: async (prefix = '') => {
      engine.assertOpen()
      if (driver.list === undefined) throw missing('list of locks')
      return engine.asked(
        'list',
        undefined,
        driver.list(prefix === '' ? prefix : checkName(prefix, 'prefix')),
      )
    },
    forceRelease: async (name) => {
      engine.assertOpen()
      if (driver.forceRelease === undefined) throw missing('forced release')
      checkName(name)
      // To its callers it is free.
      await engine.queues.get(name)?.cache?.endNow()
      return engine.asked('forceRelease', name, driver.forceRelease(name))
    },
    revoke: async (name, options) => revoke(engine, name, options),
    onRevoke: (lease, listener) => onRevoke(engine, lease, listener),
    export: (lease) => exportLease(engine, lease),
    adopt: (ticket, options) => adoptLease(engine, ticket, options),
    health: (options) => prober.health(options),
    ping: (options) => prober.ping(options),
    on: (event, listener) => engine.events.on(event, listener),
    close: () => engine.close(),
    [Symbol.asyncDispose]: () => engine.close(),
  }
  // A method that the type leaves out still throws UnsupportedError when it is called.
  return locks as unknown as Locks<Known>
}
