/** `createLocks(driver)`: the object users keep. It makes locks; each lock makes leases. */
import type { Lock } from './core/acquire.js'
import type { DriverFactory, Standing, Traits } from './core/driver.js'
import { Engine, systemEnv } from './core/engine.js'
import { UnsupportedError } from './core/errors.js'
import type { LockEvent, LockEvents } from './core/events.js'
import type { ModeKind } from './core/mode.js'
import { checkName, describe } from './core/name.js'
import type { Defaults } from './core/options.js'
import { all, type MultiLock } from './locks/multi-lock.js'
import { mutex } from './locks/mutex.js'
import { type ReadWriteLock, readWrite } from './locks/read-write.js'
import { type SemaphoreOptions, semaphore } from './locks/semaphore.js'

/** `Yes` where the driver's type says it knows the mode; otherwise calling it does not compile. */
type IfMode<Known extends ModeKind, M extends ModeKind, Yes> = M extends Known ? Yes : (name: never) => never

/** `Known`: the modes of the driver, so that what it cannot do does not compile. */
export interface Locks<Known extends ModeKind = ModeKind> extends AsyncDisposable {
  /** The driver's name and abilities. */
  readonly driver: { readonly name: string; readonly traits: Traits }
  /** One holder at a time. @throws TypeError, RangeError for a bad name */
  mutex(name: string): Lock
  /** Many readers or one writer. */
  readonly readWrite: IfMode<Known, 'shared', (name: string) => ReadWriteLock>
  /** At most n holders. */
  readonly semaphore: IfMode<Known, 'permits', (name: string, options: SemaphoreOptions) => Lock>
  /** Several locks, all or nothing. */
  all(locks: readonly Lock[]): MultiLock
  /** Who holds `name`, who waits, since when, with what note. */
  inspect(name: string): Promise<Standing>
  /** Everything held or waited for whose name begins with `prefix`. @throws UnsupportedError */
  list(prefix?: string): Promise<readonly Standing[]>
  /** Takes the lock from whoever holds it; resolves with the number of holds ended. @throws UnsupportedError */
  forceRelease(name: string): Promise<number>
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
): Locks<T['modes'][number]> {
  if (typeof driver !== 'function') {
    throw new TypeError(`createLocks takes a driver such as memory() or local(), got ${describe(driver)}`)
  }
  const engine = new Engine(driver, defaults, systemEnv())
  return locksOver<T['modes'][number]>(engine)
}

/** The same over an engine whose clock and chance are given: for simulation. */
export function locksOver<Known extends ModeKind>(engine: Engine): Locks<Known> {
  const { driver } = engine
  const missing = (ability: string) =>
    new UnsupportedError(driver.name, ability, 'use the tools of the store itself')
  const locks: Locks = {
    driver: { name: driver.name, traits: driver.traits },
    mutex: (name) => mutex(engine, name),
    readWrite: (name) => readWrite(engine, name),
    semaphore: (name, options) => semaphore(engine, name, options),
    all: (parts) => all(engine, parts),
    inspect: async (name) => {
      engine.assertOpen()
      return driver.inspect(checkName(name))
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
    on: (event, listener) => engine.events.on(event, listener),
    close: () => engine.close(),
    [Symbol.asyncDispose]: () => engine.close(),
  }
  // What the type leaves out throws UnsupportedError when it is called all the same.
  return locks as unknown as Locks<Known>
}
