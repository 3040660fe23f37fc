/**
 * Locks that record a history: use `recordLocks(locks, recorder)` instead of `locks`.
 *
 * ```
 *   acquire called ──► invoke      resolved ──► ok (token, until)      renewed ──► renew ok (until)
 *   rejected ──► fail (why)        release called ──► release invoke   resolved ──► release ok (outcome)
 *   lost ──► lost                  a writer leaves, its reader stays ──► downgrade
 * ```
 * A re-entry adds to the acquisition that holds the lock; only its last release counts as a release.
 */
import type {
  Ability,
  AcquireOptions,
  Lease,
  Lock,
  Locks,
  MultiLease,
  TryOptions,
  WaitOptions,
} from 'holdfast'
import type { ModeKind } from './event.js'
import { Journal, type Open, type Part } from './journal.js'
import type { Recorder } from './record.js'
import { RecordedLease } from './recorded-lease.js'

/** @returns the same locks, recorded, including `forceRelease`. `inspect`, `list` and the like are passed through unrecorded. */
export function recordLocks<M extends Ability>(locks: Locks<M>, recorder: Recorder): Locks<M> {
  const journal = new Journal(recorder)
  const stops = [
    locks.on('waiting', ({ name, blocked }) => {
      // An error is no queue entry: the store has not been reached yet.
      if (blocked.error === undefined) journal.waiting(name)
    }),
    locks.on('renewed', ({ name, token }) => journal.reported(name, token, 'renew')),
    locks.on('lost', ({ name, token }) => journal.reported(name, token, 'lost')),
  ]
  const one = (lock: Lock, mode: ModeKind, of?: number) => {
    const part: Part = { name: lock.name, mode, ...(of !== undefined && { of }) }
    return new RecordedLock(journal, lock, [part], (lease) => [lease])
  }
  const all = (parts: readonly Lock[]) => {
    const plain = parts.map((lock) => (lock instanceof RecordedLock ? lock.inner : lock))
    const about = parts.flatMap((lock) => (lock instanceof RecordedLock ? lock.parts : []))
    return new RecordedLock(journal, locks.all(plain), about, (lease) => (lease as MultiLease).leases)
  }
  const any = locks as unknown as Locks
  const close = async () => {
    await locks.close()
    for (const stop of stops) stop()
  }
  const wrapped: Locks = {
    ...any,
    mutex: (name, defaults) => one(any.mutex(name, defaults), 'exclusive'),
    readWrite: (name, defaults) => {
      const { read, write } = any.readWrite(name, defaults)
      return { name, read: one(read, 'shared'), write: one(write, 'exclusive') }
    },
    semaphore: (name, options) => one(any.semaphore(name, options), 'permits', options.permits),
    all,
    forceRelease: async (name) => {
      const forced = journal.forcing(name)
      try {
        const ended = await any.forceRelease(name)
        forced('ok')
        return ended
      } catch (error) {
        forced('info')
        throw error
      }
    },
    close,
    [Symbol.asyncDispose]: close,
  }
  return wrapped as unknown as Locks<M>
}

class RecordedLock implements Lock {
  readonly name: string
  readonly inner: Lock
  readonly parts: readonly Part[]
  readonly #journal: Journal
  readonly #toLeases: (lease: Lease) => readonly Lease[]

  constructor(
    journal: Journal,
    inner: Lock,
    parts: readonly Part[],
    leasesOf: (lease: Lease) => readonly Lease[],
  ) {
    this.name = inner.name
    this.inner = inner
    this.parts = parts
    this.#journal = journal
    this.#toLeases = leasesOf
  }

  async acquire(options: AcquireOptions = {}): Promise<RecordedLease> {
    const opens = this.#asked(options)
    const lease = await this.inner.acquire(plain(options)).catch((error) => this.#failed(opens, error))
    return this.#granted(opens, lease, options)
  }

  async tryAcquire(options: TryOptions = {}): Promise<RecordedLease | undefined> {
    const opens = this.#asked({ ...options, wait: 0 })
    const lease = await this.inner.tryAcquire(plain(options)).catch((error) => this.#failed(opens, error))
    if (lease !== undefined) return this.#granted(opens, lease, options)
    // Of several locks, one was not free; nothing is known about the others.
    for (const open of opens) this.#journal.failed(open, opens.length > 1 ? 'busy together' : 'busy')
    return undefined
  }

  async run<R>(fn: (lease: MultiLease) => R | PromiseLike<R>, options: AcquireOptions = {}): Promise<R> {
    const opens = this.#asked(options)
    let held: RecordedLease | undefined
    const within = async (lease: Lease) => {
      held = this.#granted(opens, lease, options)
      try {
        return await fn(held)
      } finally {
        held.leaving()
      }
    }
    try {
      const result = await this.inner.run(within, plain(options))
      held?.left('released')
      return result
    } catch (error) {
      if (held === undefined) this.#failed(opens, error)
      held?.left(findCode(error) === 'LEASE_LOST' ? 'lost' : 'released')
      throw error
    }
  }

  /** Recorded as what it is: an acquisition with an immediate release. */
  async waitUntilFree(options?: WaitOptions): Promise<void> {
    await (await this.acquire(options)).release()
  }

  #asked(options: AcquireOptions): Open[] {
    return this.parts.map((part) => this.#journal.requested(part, options))
  }

  #failed(opens: readonly Open[], error: unknown): never {
    for (const open of opens) this.#journal.failed(open, findCode(error))
    throw error
  }

  #granted(opens: readonly Open[], lease: Lease, options: AcquireOptions): RecordedLease {
    const leases = this.#toLeases(lease)
    const entries = opens.map((open, i) => {
      const held = this.#journal.granted(open, leases[i] ?? lease, options)
      return { held, mode: open.mode }
    })
    return new RecordedLease(this.#journal, lease, leases, entries)
  }
}

function findCode(error: unknown): string {
  const { code, name } = error as { code?: unknown; name?: unknown }
  return typeof code === 'string' ? code : String(name)
}

function plain<O extends TryOptions>(options: O): O {
  return options.reentrant instanceof RecordedLease
    ? { ...options, reentrant: options.reentrant.inner }
    : options
}
