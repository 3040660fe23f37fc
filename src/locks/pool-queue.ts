/**
 * How one caller gets permits of a pool: it acquires the shared lease that proves it alive, joins the queue in the
 * pool's cell, waits there until it is served, and leaves the queue once it releases the lease or gives up.
 */
import type { Engine } from '../core/engine.js'
import { AcquireTimeoutError, PoolClosedError } from '../core/errors.js'
import type { HeldLease, Lease } from '../core/lease.js'
import { quote } from '../core/name.js'
import { type AcquireOptions, checkOptions, resolveTerms, type Terms } from '../core/options.js'
import { checkMaxPending } from '../core/pending.js'
import { answered, type Deadline, restOfWait, withDeadline } from '../core/with-deadline.js'
import { beginHold, checkInterval, whileWaiting } from './membership.js'
import type { PoolCell } from './pool-cell.js'
import { checkPermits, findEntry, parsePool, withRequest } from './pool-state.js'

export type PoolAcquireOptions = Pick<
  AcquireOptions,
  'wait' | 'signal' | 'ttl' | 'autoRenew' | 'maxHold' | 'note' | 'permits' | 'maxPending'
>

/** How long leaving the queue may take, in ms; later, the end of the lease does it. */
const leaveTimeout = 1_000

export class PoolQueue {
  readonly #engine: Engine
  readonly #name: string
  readonly #cell: PoolCell
  readonly #defaults: Terms

  constructor(engine: Engine, name: string, cell: PoolCell, defaults: Terms) {
    this.#engine = engine
    this.#name = name
    this.#cell = cell
    this.#defaults = defaults
  }

  /** Undefined: the permits were not free within the wait. @throws as `Pool.acquire` */
  async take(options: PoolAcquireOptions): Promise<Lease | undefined> {
    checkOptions(options)
    const { permits = 1, maxPending, ...given } = options
    checkPermits(`permits asked of pool ${quote(this.#name)}`, permits)
    const { driver, traits, pending } = this.#engine
    const terms = resolveTerms(driver.name, traits, this.#defaults, given)
    const most = checkMaxPending(maxPending ?? this.#defaults.maxPending)
    const leave = terms.wait === 0 ? undefined : pending.enter(this.#cell.cellRef.key, this.#name, most)
    try {
      return await this.#waitFor(permits, given, terms)
    } finally {
      leave?.()
    }
  }

  async #waitFor(permits: number, given: PoolAcquireOptions, terms: Terms): Promise<Lease | undefined> {
    const { clock } = this.#engine
    const from = clock.now()
    const { wait, signal } = terms
    const lease = await this.#join(given, wait)
    if (lease === undefined) return undefined
    try {
      const left = wait === 0 ? 0 : Math.max(1, wait - (clock.now() - from))
      const within = { wait: left, ...(signal !== undefined && { signal }) }
      const looking = (bounds: Deadline) => this.#untilServed(lease, permits, bounds)
      const served = await answered(this.#engine, this.#name, within, looking, restOfWait)
      if (served === true) {
        if (wait > 0) await beginHold(lease, terms)
        return this.#leavingOnRelease(lease)
      }
    } catch (error) {
      await this.#giveUp(lease)
      throw error
    }
    await this.#giveUp(lease)
    return undefined
  }

  /**
   * Takes the shared lease that proves this member alive. While it waits, `autoRenew` and `maxHold` of its caller do not
   * apply: they do once it is served. Undefined: not granted in time, or a mutex of this name was in the way.
   */
  async #join({ wait: _, ...terms }: PoolAcquireOptions, wait: number): Promise<HeldLease | undefined> {
    const { lock } = this.#cell.membership
    if (wait === 0) return lock.tryAcquire(terms)
    const waiting = { ...terms, wait, ...whileWaiting }
    return lock.take(waiting).catch((error: unknown) => {
      if (!(error instanceof AcquireTimeoutError) || error.cause !== undefined) throw error
      return undefined
    })
  }

  #untilServed(lease: HeldLease, permits: number, bounds: Deadline): Promise<true | undefined> {
    return this.#cell.cellRef.waitUntil(() => this.#serve(lease, permits, bounds), bounds, checkInterval)
  }

  /** True once the request has been served; a single attempt does not queue. */
  async #serve(lease: HeldLease, permits: number, bounds: Deadline): Promise<true | undefined> {
    lease.assertHeld()
    const attempt = attemptOf(lease)
    const cell = await this.#cell.change(bounds, (state) => withRequest(state, attempt, permits, bounds.once))
    const state = parsePool(cell)
    if (findEntry(state, attempt)?.in) return true
    if (state?.closed) throw new PoolClosedError(this.#name)
    return undefined
  }

  async #giveUp(lease: HeldLease): Promise<void> {
    await this.#leave(lease)
    await lease.release()
  }

  async #leave(lease: HeldLease): Promise<void> {
    const leaving = (bounds: Deadline) => this.#cell.leave(attemptOf(lease), bounds)
    await withDeadline(this.#engine, { wait: leaveTimeout }, leaving).catch(() => undefined)
  }

  /** The lease is released first: from then on it is not counted. The change that follows wakes the waiters. */
  #leavingOnRelease(lease: HeldLease): Lease {
    const release = lease.release.bind(lease)
    lease.release = async () => {
      const outcome = await release()
      if (outcome !== 'already-released' && !this.#engine.closed) await this.#leave(lease)
      return outcome
    }
    return lease
  }
}

function attemptOf(lease: HeldLease): string {
  return lease.hold.watchdog.claim.attempt
}
