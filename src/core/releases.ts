/**
 * Grants on their way back to the store. A release whose reply is lost may not have been carried out, and the grant
 * would then block others until the ttl has passed; so the release is repeated for as long as that is possible. A
 * release may be carried out twice: it names the attempt.
 *
 * `close()` repeats each of them once more: those that wait for their next attempt, those that fail meanwhile, and
 * those without a reply in time. None is sent after that, because the driver is closed then.
 */

import type { Claim, Grant, ReleaseResult } from './driver.js'
import type { Engine } from './engine.js'
import { unavailable } from './errors.js'
import { Watchdog } from './watchdog.js'
import { releaseTimeout, withTimeout } from './with-timeout.js'

/** For a grant that nobody gets, which is only to be released. */
export function unusedGrant(engine: Engine, claim: Claim, grant: Grant): Watchdog {
  return new Watchdog(engine, claim, grant, { ttl: claim.ttl, lockDelay: 0, autoRenew: false })
}

export class Releases {
  readonly #engine: Engine
  readonly #underWay = new Map<Watchdog, Promise<ReleaseResult>>()
  /** Those under way that had no reply within the time of a release. */
  readonly #unanswered = new Set<Watchdog>()
  /** Releases that wait for their next attempt, each with the function that stops its timer. */
  readonly #retryTimers = new Map<Watchdog, () => void>()
  #ended = false

  constructor(engine: Engine) {
    this.#engine = engine
  }

  /** One attempt. Rejects when it fails; the release is then repeated in the background. */
  send(watchdog: Watchdog): Promise<ReleaseResult> {
    const answer = watchdog.grant.release()
    this.#underWay.set(watchdog, answer)
    const failed = (error: unknown) => {
      this.#emitError(watchdog, error)
      if (this.#finish(watchdog, answer)) this.#scheduleRetry(watchdog)
    }
    const done = () => {
      this.#finish(watchdog, answer)
      if (this.#retryTimers.size > 0) this.#cancelRetry(watchdog)
    }
    answer.then(done, failed)
    return answer
  }

  /**
   * The result of `then` for the reply to `release`, which `watchdog` has just sent; `then` gets undefined when the
   * release fails or takes too long.
   */
  answered<T>(
    watchdog: Watchdog,
    release: Promise<ReleaseResult>,
    then: (outcome: ReleaseResult | undefined) => T,
  ): Promise<T> {
    return withTimeout(this.#engine, releaseTimeout(watchdog.ttl), release, (outcome) => {
      if (outcome === undefined && this.#underWay.has(watchdog)) {
        this.#unanswered.add(watchdog)
        this.#emitError(watchdog, undefined)
      }
      return then(outcome)
    })
  }

  /** Resolves once each has been answered or repeated; no attempt takes longer than a release may. */
  async close(): Promise<void> {
    const tried = new Set<Watchdog>()
    for (;;) {
      const left = [...this.#underWay.keys(), ...this.#retryTimers.keys()].filter((one) => !tried.has(one))
      if (left.length === 0) return
      for (const one of left) tried.add(one)
      await Promise.all(left.map((one) => this.#finalAttempt(one)))
    }
  }

  /** Sends nothing from now on. */
  end(): void {
    this.#ended = true
    for (const stop of this.#retryTimers.values()) stop()
    this.#retryTimers.clear()
  }

  /** @param error undefined: no reply in time */
  #emitError({ claim, ttl }: Watchdog, error: unknown): void {
    const { events, driver } = this.#engine
    if (!events.wants('storeError')) return
    const why = error ?? unavailable(driver.name, claim.name, releaseTimeout(ttl), undefined)
    events.storeFailed(driver.name, claim.name, 'release', why)
  }

  async #finalAttempt(watchdog: Watchdog): Promise<void> {
    const underWay = this.#underWay.get(watchdog)
    if (underWay !== undefined && !this.#unanswered.has(watchdog))
      if ((await this.answered(watchdog, underWay, (outcome) => outcome)) !== undefined) return
    this.#cancelRetry(watchdog)
    if (!this.#ended && this.#mayBlock(watchdog))
      await this.answered(watchdog, this.send(watchdog), () => undefined)
  }

  /** False when it was sent again meanwhile: the newest attempt counts. */
  #finish(watchdog: Watchdog, answer: Promise<ReleaseResult>): boolean {
    if (this.#underWay.get(watchdog) !== answer) return false
    this.#unanswered.delete(watchdog)
    return this.#underWay.delete(watchdog)
  }

  #scheduleRetry(watchdog: Watchdog): void {
    if (this.#ended || !this.#mayBlock(watchdog)) return
    const { clock } = this.#engine
    const again = () => {
      this.#retryTimers.delete(watchdog)
      // Also when the lease has ended by now: the store's own end is a little later, and a driver forgets a grant only after a reply, or
      // after a failure past the end.
      void this.send(watchdog)
    }
    this.#cancelRetry(watchdog)
    this.#retryTimers.set(watchdog, clock.at(clock.now() + watchdog.ttl / 6, again, { ref: false }))
  }

  /** Cancels the next attempt. */
  #cancelRetry(watchdog: Watchdog): void {
    this.#retryTimers.get(watchdog)?.()
    this.#retryTimers.delete(watchdog)
  }

  /** May the store still keep others out because of this grant? */
  #mayBlock({ grant }: Watchdog): boolean {
    return this.#engine.clock.now() < grant.validUntil
  }
}
