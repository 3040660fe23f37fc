/**
 * A read/write lock with a third side: read now, and perhaps write later, with no other writer in between.
 *
 * A second lock of its own, the *pen*, is held by whoever may write: writers, and the one reader that may become one. So two
 * readers never wait for each other to become writers, and while the pen is held nobody else writes:
 * ```
 *   read:        shared
 *   write:       pen, then exclusive
 *   upgradeable: pen, then shared     upgrade: give shared back, take exclusive     downgrade: the other way round
 * ```
 * Between shared and exclusive other readers may come and go, but nothing is written. All users of the name must use
 * this kind of lock: a plain write side knows nothing of the pen.
 */
import { EngineLock, type Lock } from '../core/acquire.js'
import type { Engine } from '../core/engine.js'
import { AcquireTimeoutError, LeaseLostError } from '../core/errors.js'
import type { HeldLease, Lease } from '../core/lease.js'
import { exclusive, shared } from '../core/mode.js'
import { checkName } from '../core/name.js'
import { type AcquireOptions, duration } from '../core/options.js'
import { HeldTogether } from './multi-lease.js'
import { all, type MultiLock } from './multi-lock.js'
import { noPermits } from './no-permits.js'

export type UpgradeableOptions = Pick<
  AcquireOptions,
  'wait' | 'signal' | 'ttl' | 'autoRenew' | 'maxHold' | 'note'
>

export interface UpgradeableLock {
  readonly name: string
  readonly read: Lock
  /** Takes the pen, then the lock. */
  readonly write: MultiLock
  /** Reads, and may write later. One at a time. @throws as `Lock.acquire` */
  upgradeable(options?: UpgradeableOptions): Promise<UpgradeableLease>
}

/** `leases`: the pen, and what is held of the lock at present. `token` is the greatest. */
export interface UpgradeableLease extends Lease {
  /** What it may do now. */
  readonly mode: 'read' | 'write'
  /**
   * Waits for the other readers to leave; false: they had not within `wait`, and it goes on reading. Nobody writes in between.
   * @throws LeaseLostError; the reason of `signal`, then it goes on reading; BackendError
   */
  upgrade(options?: Pick<AcquireOptions, 'wait' | 'signal'>): Promise<boolean>
  /** Lets other readers in, and goes on reading. Nobody writes in between. @throws LeaseLostError, BackendError */
  downgrade(): Promise<void>
}

/** @throws UnsupportedError when the driver has no shared mode; TypeError, RangeError for a bad name */
export function upgradeable(engine: Engine, name: string): UpgradeableLock {
  checkName(name)
  const pen = `pen of ${name}`
  checkName(pen, 'lock name with its pen')
  const what = 'an upgradeable lock'
  const penLock = new EngineLock(engine, pen, 'exclusive', noPermits(what, exclusive))
  const read = new EngineLock(engine, name, 'shared', noPermits(what, shared))
  const write = new EngineLock(engine, name, 'exclusive', noPermits(what, exclusive))
  return {
    name,
    read,
    // 'pen of x' may come after 'x' in the alphabet, but the pen must come first.
    write: all(engine, [penLock, write], { inThisOrder: true }),
    async upgradeable(options = {}) {
      const { clock } = engine
      const from = clock.now()
      const wait = duration('wait', options.wait ?? engine.defaults.wait, 0, true)
      const held = await penLock.take(options)
      try {
        const left = Math.max(0, wait - (clock.now() - from))
        const reading = await read.take({ ...options, wait: wait === 0 ? 0 : Math.max(left, 1) })
        // What ended or bounded the first wait has no say in later ones.
        const { wait: _wait, signal: _signal, ...lasting } = options
        return new Upgradeable({ read, write }, lasting, held, reading)
      } catch (error) {
        await held.release()
        throw error
      }
    },
  }
}

class Upgradeable extends HeldTogether implements UpgradeableLease {
  readonly #sides: { readonly read: EngineLock; readonly write: EngineLock }
  readonly #options: UpgradeableOptions
  readonly #both: HeldLease[]
  #mode: 'read' | 'write' = 'read'
  #signals: AbortController | undefined
  #busy: Promise<unknown> = Promise.resolve()

  constructor(
    sides: { readonly read: EngineLock; readonly write: EngineLock },
    options: UpgradeableOptions,
    pen: HeldLease,
    reading: HeldLease,
  ) {
    const both = [pen, reading]
    super(sides.read.name, both)
    this.#sides = sides
    this.#options = options
    this.#both = both
  }

  get mode(): 'read' | 'write' {
    return this.#mode
  }

  /** Aborts with the loss of the pen, or of what is held of the lock at that moment. */
  override get signal(): AbortSignal {
    const controller = this.#signals ?? new AbortController()
    this.#signals = controller
    for (const lease of this.#both) this.#follow(lease)
    return controller.signal
  }

  upgrade(options: Pick<AcquireOptions, 'wait' | 'signal'> = {}): Promise<boolean> {
    return this.#inTurn(async () => {
      if (this.#mode === 'write') return true
      try {
        await this.#swap(this.#sides.write, { ...this.#options, ...options })
        this.#mode = 'write'
        return true
      } catch (error) {
        this.#both[0]?.assertHeld()
        await this.#take(this.#sides.read, this.#options)
        if (error instanceof AcquireTimeoutError) return false
        throw error
      }
    })
  }

  downgrade(): Promise<void> {
    return this.#inTurn(async () => {
      if (this.#mode === 'read') return
      await this.#swap(this.#sides.read, this.#options)
      this.#mode = 'read'
    })
  }

  async #swap(to: EngineLock, options: UpgradeableOptions): Promise<void> {
    this.assertHeld()
    if ((await this.#both[1]?.release()) === 'lost') throw this.lostError()
    await this.#take(to, options)
  }

  async #take(side: EngineLock, options: UpgradeableOptions): Promise<void> {
    const lease = await side.take(options)
    this.#both[1] = lease
    if (this.#signals !== undefined) this.#follow(lease)
    // The pen may have run out while the other was waited for.
    if (this.#both[0]?.isHeld !== true) {
      await lease.release()
      throw this.lostError()
    }
  }

  #follow(lease: HeldLease): void {
    const { signal } = lease
    const lost = () => this.#signals?.abort(signal.reason)
    if (signal.aborted) lost()
    else signal.addEventListener('abort', lost, { once: true })
  }

  #inTurn<R>(work: () => Promise<R>): Promise<R> {
    const next = this.#busy.then(work)
    this.#busy = next.catch(() => undefined)
    return next
  }

  override lostError(): LeaseLostError {
    const pen = this.#both[0]
    return pen?.hold.lost ?? this.#both[1]?.hold.lost ?? new LeaseLostError(this.name, this.token, 'taken')
  }
}
