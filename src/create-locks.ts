/** `createLocks(driver)`: the object users keep. It makes locks; each lock makes leases. */
import type { Lock } from './core/acquire.js'
import { isCurrent } from './core/check.js'
import type { DriverFactory, Standing, Traits } from './core/driver.js'
import { Engine, systemEnv } from './core/engine.js'
import { UnsupportedError } from './core/errors.js'
import type { LockEvent, LockEvents } from './core/events.js'
import type { Lease } from './core/lease.js'
import type { ModeKind } from './core/mode.js'
import { checkName, describe } from './core/name.js'
import type { Defaults } from './core/options.js'
import { type Barrier, barrier } from './locks/barrier.js'
import { type Election, election } from './locks/election.js'
import { type AdoptOptions, adoptLease, exportLease } from './locks/handing.js'
import { type Job, type JobOptions, job } from './locks/job.js'
import { type Latch, latch } from './locks/latch.js'
import { all, type MultiLock } from './locks/multi-lock.js'
import { mutex } from './locks/mutex.js'
import { type OnceOptions, once } from './locks/once.js'
import { type Pool, pool } from './locks/pool.js'
import { type ReadWriteLock, readWrite } from './locks/read-write.js'
import { onRevoke, type Revocation, type Revoked, type RevokeOptions, revoke } from './locks/revoke.js'
import { type SemaphoreOptions, semaphore } from './locks/semaphore.js'
import { type UpgradeableLock, upgradeable } from './locks/upgradeable.js'

/** What a driver may be able to do: a mode, to keep small values beside the locks, to let a hold move to another process. */
export type Ability = ModeKind | 'cells' | 'portable'

/** The abilities that the traits of a driver name. */
export type AbilitiesOf<T extends Traits> =
  | T['modes'][number]
  // A driver of which nothing is known may be able to: then it is found out when it is asked for.
  | (T extends { readonly cells: true } ? 'cells' : Traits extends T ? 'cells' : never)
  | (T extends { readonly portable: true } ? 'portable' : Traits extends T ? 'portable' : never)

/** `Yes` where the driver's type says it is able to; otherwise calling it does not compile. */
type If<Known extends Ability, Needed extends Ability, Yes> = [Needed] extends [Known]
  ? Yes
  : (name: never) => never

/** `Known`: the abilities of the driver, so that what it cannot do does not compile. */
export interface Locks<Known extends Ability = Ability> extends AsyncDisposable {
  /** The driver's name and abilities. */
  readonly driver: { readonly name: string; readonly traits: Traits }
  /** One holder at a time. @throws TypeError, RangeError for a bad name */
  mutex(name: string): Lock
  /** Many readers or one writer. */
  readonly readWrite: If<Known, 'shared', (name: string) => ReadWriteLock>
  /** At most n holders. */
  readonly semaphore: If<Known, 'permits', (name: string, options: SemaphoreOptions) => Lock>
  /**
   * Runs `fn` at most once at a time for `key`; everybody else who asks gets its result or its error, also for `keep` ms after. The
   * result is what JSON makes of it, at most 64 KiB. Whoever runs holds the lock named `key`.
   * @throws what `fn` threw, in this process or another (then an `Error` of the same name, message and code); LeaseLostError with
   * `result` when the lease was lost before the result was kept; TypeError, RangeError for a result that cannot be; as `acquire`
   */
  readonly once: If<
    Known,
    'cells',
    <R>(key: string, fn: (lease: Lease) => R | PromiseLike<R>, options?: OnceOptions) => Promise<R>
  >
  /** One leader, whom everybody can see. @throws TypeError, RangeError for a bad name; UnsupportedError */
  readonly election: If<Known, 'cells', (name: string) => Election>
  /** Closed until it has been counted down, then open for all who wait. @throws TypeError, RangeError for a bad name; UnsupportedError */
  readonly latch: If<Known, 'cells', (name: string) => Latch>
  /** Nobody goes on before `parties` are there. @throws TypeError, RangeError for bad arguments; UnsupportedError */
  readonly barrier: If<Known, 'cells' | 'shared', (name: string, parties: number) => Barrier>
  /** A scheduled job that many hosts start and one runs. @throws TypeError, RangeError for bad arguments */
  job(name: string, options?: JobOptions): Job
  /** A semaphore that can be resized while it is used, and tells who has its permits. @throws TypeError, RangeError; UnsupportedError */
  readonly pool: If<Known, 'cells' | 'shared', (name: string, options: { readonly permits: number }) => Pool>
  /** Readers, writers, and one reader that may become a writer. @throws TypeError, RangeError for a bad name; UnsupportedError */
  readonly upgradeable: If<Known, 'shared', (name: string) => UpgradeableLock>
  /** Several locks, all or nothing; also of other `createLocks`. */
  all(locks: readonly Lock[]): MultiLock
  /** Who holds `name`, who waits, since when, with what note. */
  inspect(name: string): Promise<Standing>
  /**
   * Asks the store whether `token` is that of somebody who holds `name`: for whoever was sent a token and keeps none to compare it with.
   * True says that nobody came after it before the store answered; a write that follows is another step, so
   * where the store itself is written to, its own condition is better: see docs/guard.md.
   * @throws TypeError, RangeError for what is no token; BackendError
   */
  check(fence: { readonly name: string; readonly token: number }): Promise<boolean>
  /** Everything held or waited for whose name begins with `prefix`. @throws UnsupportedError */
  list(prefix?: string): Promise<readonly Standing[]>
  /** Takes the lock from whoever holds it; resolves with the number of holds ended. @throws UnsupportedError */
  forceRelease(name: string): Promise<number>
  /**
   * Asks whoever holds `name` to give way, waits for `grace` ms, then takes it by force. @throws UnsupportedError, BackendError;
   * TypeError, RangeError for bad options; the reason of `signal`
   */
  readonly revoke: If<Known, 'cells', (name: string, options?: RevokeOptions) => Promise<Revoked>>
  /**
   * Calls `listener` when this lease is asked to give way, until it ends. Returns a function that takes it off. Until then this
   * process watches a cell for it. @throws TypeError, UnsupportedError
   */
  readonly onRevoke: If<Known, 'cells', (lease: Lease, listener: (asked: Revocation) => void) => () => void>
  /**
   * Makes a ticket of a lease, which is over here then; another process adopts it within its ttl, exactly once. Whoever has the ticket
   * can. @throws LeaseLostError, UnsupportedError, BackendError; TypeError for what is no plain lease
   */
  readonly export: If<Known, 'cells' | 'portable', (lease: Lease) => Promise<string>>
  /** The lease of a ticket, with its token. @throws LeaseLostError when it was adopted before or has run out; TypeError, UnsupportedError, BackendError */
  readonly adopt: If<Known, 'cells' | 'portable', (ticket: string, options?: AdoptOptions) => Promise<Lease>>
  /** Calls `listener` on every such event; returns a function that takes it off. */
  on<E extends LockEvent>(event: E, listener: (event: LockEvents[E]) => void): () => void
  /** Rejects who waits, gives back what is held, closes the driver. Idempotent. The client passed to a driver stays open. */
  close(): Promise<void>
}

/**
 * Makes locks over one store. No I/O happens before the first acquisition.
 * @param driver `memory()`, `local()`, `redis({ client })`, …
 * @param defaults for every lock made from it; the built-in ones are those of `AcquireOptions`.
 * @throws TypeError, RangeError for bad defaults; UnsupportedError for a default the driver cannot meet.
 */
export function createLocks<T extends Traits>(
  driver: DriverFactory<T>,
  defaults?: Defaults,
): Locks<AbilitiesOf<T>> {
  if (typeof driver !== 'function') {
    throw new TypeError(`createLocks takes a driver such as memory() or local(), got ${describe(driver)}`)
  }
  const engine = new Engine(driver, defaults, systemEnv())
  return locksOver<AbilitiesOf<T>>(engine)
}

/** The same over an engine whose clock and chance are given: for simulation. */
export function locksOver<Known extends Ability>(engine: Engine): Locks<Known> {
  const { driver } = engine
  const missing = (ability: string) =>
    new UnsupportedError(driver.name, ability, 'use the tools of the store itself')
  const locks: Locks = {
    driver: { name: driver.name, traits: driver.traits },
    mutex: (name) => mutex(engine, name),
    readWrite: (name) => readWrite(engine, name),
    semaphore: (name, options) => semaphore(engine, name, options),
    latch: (name) => latch(engine, name),
    barrier: (name, parties) => barrier(engine, name, parties),
    pool: (name, options) => pool(engine, name, options),
    upgradeable: (name) => upgradeable(engine, name),
    job: (name, options) => job(engine, name, options),
    election: (name) => election(engine, name),
    once: (key, fn, options) => once(engine, key, fn, options),
    all: (parts) => all(engine, parts),
    inspect: async (name) => {
      engine.assertOpen()
      return driver.inspect(checkName(name))
    },
    check: async (fence) => {
      engine.assertOpen()
      return isCurrent(driver, fence)
    },
    list: async (prefix = '') => {
      engine.assertOpen()
      if (driver.list === undefined) throw missing('list of locks')
      return driver.list(prefix === '' ? prefix : checkName(prefix, 'prefix'))
    },
    forceRelease: async (name) => {
      engine.assertOpen()
      if (driver.forceRelease === undefined) throw missing('forced release')
      return driver.forceRelease(checkName(name))
    },
    revoke: async (name, options) => revoke(engine, name, options),
    onRevoke: (lease, listener) => onRevoke(engine, lease, listener),
    export: (lease) => exportLease(engine, lease),
    adopt: (ticket, options) => adoptLease(engine, ticket, options),
    on: (event, listener) => engine.events.on(event, listener),
    close: () => engine.close(),
    [Symbol.asyncDispose]: () => engine.close(),
  }
  // What the type leaves out throws UnsupportedError when it is called all the same.
  return locks as unknown as Locks<Known>
}
