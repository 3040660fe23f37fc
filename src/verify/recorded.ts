/**
 * Locks that write a history: use `recorded(locks, recorder)` instead of `locks`.
 *
 * ```
 *   acquire called ──► invoke      resolved ──► ok (token, until)      renewed ──► renew ok (until)
 *   rejected ──► fail (why)        release called ──► release invoke   resolved ──► release ok (outcome)
 *   lost ──► lost                  a writer leaves, its reader stays ──► downgrade
 * ```
 * Entering again what is held already adds to the acquisition that holds it; only its last release is a release.
 */
import type { Ability, AcquireOptions, Lease, Lock, Locks, MultiLease, TryOptions } from 'holdfast'
import type { ModeKind } from './event.js'
import { Journal, type Open, type Part } from './journal.js'
import type { Recorder } from './record.js'
import { RecordedLease } from './recorded-lease.js'

/** @returns the same locks, recorded. `inspect`, `list` and the like are passed through and leave no trace. */
export function recorded<M extends Ability>(locks: Locks<M>, recorder: Recorder): Locks<M> {
  const journal = new Journal(recorder)
  const stops = [
    locks.on('waiting', ({ name, blocked }) => {
      // Trouble is no place in line: the store has not been reached yet.
      if (blocked.trouble === undefined) journal.waiting(name)
    }),
    locks.on('renewed', ({ name, token }) => journal.told(name, token, 'renew')),
    locks.on('lost', ({ name, token }) => journal.told(name, token, 'lost')),
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
    mutex: (name) => one(any.mutex(name), 'exclusive'),
    readWrite: (name) => {
      const { read, write } = any.readWrite(name)
      return { name, read: one(read, 'shared'), write: one(write, 'exclusive') }
    },
    semaphore: (name, options) => one(any.semaphore(name, options), 'permits', options.permits),
    all,
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
  readonly #leasesOf: (lease: Lease) => readonly Lease[]

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
    this.#leasesOf = leasesOf
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
    // Of several, one was not free; nothing is said about the others.
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
      held?.left(codeOf(error) === 'LEASE_LOST' ? 'lost' : 'released')
      throw error
    }
  }

  #asked(options: AcquireOptions): Open[] {
    return this.parts.map((part) => this.#journal.asked(part, options))
  }

  #failed(opens: readonly Open[], error: unknown): never {
    for (const open of opens) this.#journal.failed(open, codeOf(error))
    throw error
  }

  #granted(opens: readonly Open[], lease: Lease, options: AcquireOptions): RecordedLease {
    const leases = this.#leasesOf(lease)
    const entries = opens.map((open, i) => {
      const held = this.#journal.granted(open, leases[i] ?? lease, options)
      return { held, mode: open.mode }
    })
    return new RecordedLease(this.#journal, lease, leases, entries)
  }
}

function codeOf(error: unknown): string {
  const { code, name } = error as { code?: unknown; name?: unknown }
  return typeof code === 'string' ? code : String(name)
}

function plain<O extends TryOptions>(options: O): O {
  return options.reentrant instanceof RecordedLease
    ? { ...options, reentrant: options.reentrant.inner }
    : options
}
