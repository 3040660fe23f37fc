/** The grant that one local queue keeps after its release, for the next request of this process: see `caching.ts`. */
import { type Cached, mayBeCached } from './caching.js'
import { minTtlShare } from './handoff-rules.js'
import type { Hold } from './hold.js'
import type { LocalQueue } from './local-queue.js'
import { removeHold } from './queue-state.js'
import type { Watchdog } from './watchdog.js'

export class GrantCache implements Cached {
  readonly #queue: LocalQueue
  #hold: Hold | undefined
  /** Clock reading at which `linger` has passed. */
  #until = 0
  /** When the timer fires, and how to stop it. */
  #timer: { readonly at: number; readonly stop: () => void } | undefined

  constructor(queue: LocalQueue) {
    this.#queue = queue
  }

  /** The released hold whose grant is kept. */
  get hold(): Hold | undefined {
    return this.#hold
  }

  /** Has `linger` passed? The timer may be late. */
  get isOver(): boolean {
    return this.#queue.engine.clock.now() >= this.#until
  }

  keep(hold: Hold): void {
    const { watchdog, linger } = hold
    const { grant } = watchdog
    grant.onContended ??= () => {
      if (this.#hold?.watchdog.grant === grant) this.end()
    }
    // The former holder's `maxHold` does not apply to the next.
    watchdog.limit(Number.POSITIVE_INFINITY)
    this.#hold = hold
    this.#until = this.#queue.engine.clock.now() + linger
    this.#endLater()
    this.#queue.engine.cached.add(this)
  }

  /** Takes the hold out. Its timer stays, so that many reuses need one. */
  take(): Hold | undefined {
    const hold = this.#hold
    if (hold === undefined) return undefined
    this.#hold = undefined
    this.#queue.engine.cached.delete(this)
    return hold
  }

  /** The cached grant goes back to the store. */
  end(): void {
    void this.endNow()
  }

  /** Resolves once the store has replied, or has had the time for it. */
  async endNow(): Promise<void> {
    const hold = this.take()
    if (hold === undefined) return
    // The timer would keep the queue alive: of many names, few are cached at a time.
    this.#timer?.stop()
    this.#timer = undefined
    const { engine, state } = this.#queue
    removeHold(state, hold)
    const { watchdog } = hold
    const answer = engine.releases.answered(watchdog, watchdog.release(), () => undefined)
    this.#queue.pump()
    await answer
  }

  #endLater(): void {
    const at = this.#until
    // The newest `linger` may end before an earlier one.
    if (this.#timer !== undefined && this.#timer.at <= at) return
    this.#timer?.stop()
    const stop = this.#queue.engine.schedule(at, () => {
      this.#timer = undefined
      if (this.#hold === undefined) return
      if (this.isOver) this.end()
      else this.#endLater()
    })
    this.#timer = { at, stop }
  }
}

/** May the grant of this hold be kept: would the next holder have what it needs? */
export function mayKeep({ watchdog, revoked, linger, mode }: Hold): boolean {
  if (linger === 0 || revoked || mode.kind !== 'exclusive') return false
  if (!mayBeCached(watchdog.claim.attempt)) return false
  return watchdog.autoRenew && !watchdog.extending && canReuse(watchdog)
}

/** Held, as `isHeld` checks it, with enough time left, and nobody in the store is known to wait. */
export function canReuse(watchdog: Watchdog): boolean {
  return watchdog.grant.contended?.() === false && isFit(watchdog)
}

/** Held, and with enough time left for another holder. */
export function isFit(watchdog: Watchdog): boolean {
  return watchdog.checkNow() === 'held' && watchdog.remaining >= minTtlShare * watchdog.maxLeaseTtl
}
