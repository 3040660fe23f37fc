/**
 * A read/write lock with a third side: read now, and perhaps write later, with no other writer in between.
 *
 * An internal intent lock, the *pen*, is held by everybody who may write: writers, and the one reader that may become
 * one. So two readers never wait for each other to become writers, and while the pen is held nobody else writes:
 * ```
 *   read:        shared
 *   write:       pen, then exclusive
 *   upgradeable: pen, then shared     upgrade: release shared, acquire exclusive     downgrade: the other way round
 * ```
 * Between shared and exclusive other readers may come and go, but nothing is written. All users of the name must use
 * this kind of lock: a plain write side does not know of the pen.
 */
import { EngineLock, type Lock } from '../core/acquire.js'
import { duration } from '../core/duration.js'
import type { Engine } from '../core/engine.js'
import { AcquireTimeoutError, LeaseLostError } from '../core/errors.js'
import type { HeldLease, Lease, ReleaseOutcome } from '../core/lease.js'
import { exclusive, shared } from '../core/mode.js'
import { checkName } from '../core/name.js'
import type { AcquireOptions, Defaults } from '../core/options.js'
import { CompositeLease } from './multi-lease.js'
import { all, type MultiLock } from './multi-lock.js'
import { noPermits } from './no-permits.js'

export type UpgradeableOptions = Pick<
  AcquireOptions,
  'wait' | 'signal' | 'ttl' | 'autoRenew' | 'maxHold' | 'note' | 'maxPending'
>

export interface UpgradeableLock {
  readonly name: string
  readonly read: Lock
  /** Acquires the pen, then the lock. */
  readonly write: MultiLock
  /** Reads, and may write later. One at a time. @throws as `Lock.acquire` */
  upgradeable(options?: UpgradeableOptions): Promise<UpgradeableLease>
}

/** `leases`: the pen, and the present hold of the lock. `token` is the greatest. */
export interface UpgradeableLease extends Lease {
  /** What the holder may do now. */
  readonly mode: 'read' | 'write'
  /**
   * Waits for the other readers to leave; false: they had not within `wait`, and the holder goes on reading. Nobody
   * writes in between.
   * @throws LeaseLostError; the reason of `signal`, then it goes on reading; BackendError
   */
  upgrade(options?: Pick<AcquireOptions, 'wait' | 'signal'>): Promise<boolean>
  /**
   * Lets other readers in, and goes on reading. Nobody writes in between. If it fails, `mode` is `'read'` all the
   * same, and another call tries again. @throws LeaseLostError, BackendError
   */
  downgrade(): Promise<void>
}

/** @throws UnsupportedError when the driver has no shared mode; TypeError, RangeError for a bad name */
export function upgradeable(engine: Engine, name: string, defaults?: Defaults): UpgradeableLock {
  checkName(name)
  const terms = { ...engine.resolveDefaults('upgradeable()', defaults), linger: 0 }
  const pen = `pen of ${name}`
  checkName(pen, 'lock name with its pen')
  const what = 'an upgradeable lock'
  const penLock = new EngineLock(engine, pen, 'exclusive', noPermits(what, exclusive), terms)
  const read = new EngineLock(engine, name, 'shared', noPermits(what, shared), terms)
  // The holder of the pen was admitted before.
  const admitted = { ...terms, maxPending: Number.POSITIVE_INFINITY }
  const write = new EngineLock(engine, name, 'exclusive', noPermits(what, exclusive), admitted)
  return {
    name,
    read,
    // 'pen of x' may come after 'x' in the alphabet, but the pen must come first.
    write: all(engine, [penLock, write], { wait: terms.wait }),
    async upgradeable(options = {}) {
      const { clock } = engine
      const from = clock.now()
      const wait = duration('wait', options.wait ?? terms.wait, 0, true)
      const held = await penLock.take(options)
      try {
        const left = Math.max(0, wait - (clock.now() - from))
        const then = { ...options, maxPending: Number.POSITIVE_INFINITY }
        const reading = await read.take({ ...then, wait: wait === 0 ? 0 : Math.max(left, 1) })
        // What ended or bounded the first wait does not apply to later ones.
        const { wait: _wait, signal: _signal, ...lasting } = then
        return new Upgradeable({ read, write }, lasting, held, reading)
      } catch (error) {
        await held.release()
        throw error
      }
    },
  }
}

class Upgradeable extends CompositeLease implements UpgradeableLease {
  readonly #locks: { readonly read: EngineLock; readonly write: EngineLock }
  readonly #options: UpgradeableOptions
  readonly #leases: HeldLease[]
  #mode: 'read' | 'write' = 'read'
  #signals: AbortController | undefined
  #pending: Promise<unknown> = Promise.resolve()
  /** Aborts on release: a wait for the write side then ends. */
  readonly #released = new AbortController()

  constructor(
    sides: { readonly read: EngineLock; readonly write: EngineLock },
    options: UpgradeableOptions,
    pen: HeldLease,
    reading: HeldLease,
  ) {
    const both = [pen, reading]
    super(sides.read.name, both)
    this.#locks = sides
    this.#options = options
    this.#leases = both
  }

  get mode(): 'read' | 'write' {
    return this.#mode
  }

  /** Aborts with the loss of the pen, or of the present hold of the lock. */
  override get signal(): AbortSignal {
    if (this.#signals !== undefined) return this.#signals.signal
    this.#signals = new AbortController()
    for (const lease of this.#leases) this.#follow(lease)
    return this.#signals.signal
  }

  upgrade(options: Pick<AcquireOptions, 'wait' | 'signal'> = {}): Promise<boolean> {
    return this.#serialize(async () => {
      this.assertHeld()
      if (this.#mode === 'write') return true
      try {
        await this.#swap(this.#locks.write, { ...this.#options, ...options })
        this.#mode = 'write'
        return true
      } catch (error) {
        this.#leases[0]?.assertHeld()
        await this.#acquireSide(this.#locks.read, this.#options)
        if (error instanceof AcquireTimeoutError) return false
        throw error
      }
    })
  }

  downgrade(): Promise<void> {
    return this.#serialize(async () => {
      this.assertHeld()
      if (this.#mode === 'read' && this.#leases.length > 1) return
      await this.#swap(this.#locks.read, this.#options)
    })
  }

  override release(): Promise<ReleaseOutcome> {
    const answer = super.release()
    this.#released.abort(this.lostError())
    return answer
  }

  /** In between, or if the second step fails, only the pen is held: the holder goes on reading, and nobody writes. */
  async #swap(to: EngineLock, options: UpgradeableOptions): Promise<void> {
    this.#mode = 'read'
    const before = this.#leases.length > 1 ? this.#leases.pop() : undefined
    if ((await before?.release()) === 'lost') {
      if (before !== undefined) this.#leases[1] = before
      throw this.lostError()
    }
    await this.#acquireSide(to, options)
  }

  async #acquireSide(side: EngineLock, options: UpgradeableOptions): Promise<void> {
    const ends = [this.#released.signal, ...(options.signal === undefined ? [] : [options.signal])]
    const lease = await side.take({ ...options, signal: AbortSignal.any(ends) })
    // The pen may have expired, or been released, during the wait for the other.
    if (this.#leases[0]?.isHeld !== true) {
      await lease.release()
      throw this.lostError()
    }
    this.#leases[1] = lease
    if (this.#signals !== undefined) this.#follow(lease)
  }

  #follow(lease: HeldLease): void {
    const { signal } = lease
    const lost = () => this.#signals?.abort(signal.reason)
    if (signal.aborted) lost()
    else signal.addEventListener('abort', lost, { once: true })
  }

  #serialize<R>(work: () => Promise<R>): Promise<R> {
    const next = this.#pending.then(work)
    this.#pending = next.catch(() => undefined)
    return next
  }

  override lostError(): LeaseLostError {
    const lost = this.#leases.find((lease) => lease.state === 'lost') ?? this.#leases[0]
    return lost?.hold.lostError() ?? new LeaseLostError(this.name, this.token, 'taken')
  }
}
