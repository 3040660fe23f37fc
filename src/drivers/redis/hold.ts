/** One grant, from its first proof to the reply to its release. */
import { mayBeCached } from '../../core/caching.js'
import { deadline } from '../../core/clock.js'
import type { Claim, Grant, ReleaseResult } from '../../core/driver.js'
import { BackendError } from '../../core/errors.js'
import { LossNotice, type LossSignal } from '../../core/loss-notice.js'
import { tokenReserve } from '../../core/token.js'
import { Hints } from '../kit/hints.js'
import { RenewalOrder } from '../kit/renewal-order.js'
import { micros, tombstoneTtl } from './acquire-codec.js'
import type { Reply } from './client.js'
import { toFailure } from './failure.js'
import type { Keys } from './keys.js'
import { toResult } from './multi-step-reply.js'
import type { Batch } from './pipeline.js'
import type { Runtime } from './runtime.js'
import type { Script } from './scripts/batch-script.js'
import { downgrade, release, renew } from './scripts/verbs.js'

export interface HoldProof {
  readonly token: number
  readonly validUntil: number
  /** Were others waiting for the name at the grant? */
  readonly contended: boolean
  /** Was the process reachable at the request, so that it would be notified of later waiters? */
  readonly reachable: boolean
}

export class Hold implements Grant {
  readonly #runtime: Runtime
  readonly #claim: Claim
  readonly #keys: Keys
  readonly #subscriberEpoch: number
  readonly #connectionEpoch: number
  readonly token: number
  validUntil: number
  onContended: (() => void) | undefined
  #last: number
  #contendedSeen: boolean
  #reachable: boolean
  #asked = false
  #revoked: LossNotice | undefined
  #hints: Hints | undefined
  #renewals: RenewalOrder | undefined

  constructor(runtime: Runtime, claim: Claim, keys: Keys, proven: HoldProof) {
    this.#runtime = runtime
    this.#claim = claim
    this.#keys = keys
    this.#subscriberEpoch = runtime.subscriber.epoch
    this.#connectionEpoch = runtime.pipeline.epoch
    this.token = proven.token
    this.#last = proven.token
    this.validUntil = proven.validUntil
    this.#contendedSeen = proven.contended
    this.#reachable = proven.reachable
    runtime.holds.set(claim.attempt, this)
  }

  get lost(): LossSignal {
    this.#revoked ??= new LossNotice()
    return this.#revoked
  }

  /** A notification: others wait, or an operator force-released the lock; the second is checked with the server first. */
  onNotification(what: 'contended' | 'taken'): void {
    if (what === 'contended') this.#contendedSeen = true
    else this.check()
    this.onContended?.()
  }

  /** Asks the server whether the grant still exists. */
  check(): void {
    if (this.#asked) return
    this.#hints ??= new Hints(this.#runtime.clock, () => this.#checkNow())
    this.#hints.notify()
  }

  async renew(ttl: number): Promise<number | undefined> {
    const runtime = this.#runtime
    runtime.ensureCompatible(ttl, this.#claim)
    this.#renewals ??= new RenewalOrder(this.#claim.ttl)
    const order = this.#renewals.sent(ttl)
    const term = order === undefined ? micros(ttl) : `${micros(ttl)} ${order}`
    const [reply, flight] = await this.#prove([this.#claim.attempt, term])
    if (Number(reply) !== 1) return undefined
    if (flight.replicas < runtime.settings.replicas) throw runtime.notEnoughReplicas(flight.replicas)
    this.validUntil = deadline(flight.sent, ttl)
    return this.validUntil
  }

  // Not by `#answer`: this is on the path of every release, and each further promise costs.
  release(): Promise<ReleaseResult> {
    const again = this.#asked
    this.#asked = true
    return new Promise((resolve, reject) => {
      this.#runtime.pipeline.ask(release, this.#keys, [this.#claim.attempt, String(this.#last)], {
        answered: (reply, flight) => resolve(this.#released(reply, flight, again)),
        failed: (error) => reject(this.#failed(error)),
      })
    })
  }

  /** @param again it was asked before */
  #released(reply: Reply, flight: Batch, again: boolean): ReleaseResult {
    const { attempt } = this.#claim
    const result = toResult(this.#runtime, this.#keys, reply, flight)
    this.drop()
    // A copy of the claim that arrives now would acquire the lock for nobody.
    if (this.#runtime.pipeline.connection.repeats === true)
      void this.#runtime.cancel(attempt, this.#keys, this.#claim.ttl, tombstoneTtl)
    if (result === '1') return 'released'
    // The first try may have been executed, and others may have held and released since. While the proof shows that no other client
    // could have taken the lock, "not yours" can only mean that the first try was executed.
    const before = (again || flight.twice) && this.#runtime.clock.now() < this.validUntil
    return result === '2' || before ? 'already-released' : 'lost'
  }

  nextReservedToken(): number | undefined {
    if (this.#claim.mode.kind !== 'exclusive' || this.#last - this.token >= tokenReserve) return undefined
    this.#runtime.subscriber.open()
    this.#last++
    return this.#last
  }

  contended(): boolean {
    const { subscriber, pipeline } = this.#runtime
    if (this.#contendedSeen || !this.#reachable || this.#subscriberEpoch !== subscriber.epoch) return true
    // What was cached over one connection is not reused over the next: another server may be at its end.
    return mayBeCached(this.#claim.attempt) && this.#connectionEpoch !== pipeline.epoch
  }

  async downgrade(): Promise<void> {
    const [reply, flight] = await this.#answer(downgrade, [this.#claim.attempt, String(this.#last)])
    const result = toResult(this.#runtime, this.#keys, reply, flight)
    if (result === '0')
      throw new BackendError('redis', `cannot downgrade ${this.#claim.name}: it is not held`)
  }

  detach(): void {
    this.drop()
  }

  /** Forgets the hold and leaves no timer behind. */
  drop(): void {
    this.#hints?.stop()
    this.#runtime.holds.delete(this.#claim.attempt)
  }

  /** The reply of a server that may no longer be the master proves nothing: retry once the server is known. */
  async #prove(args: readonly string[]): Promise<readonly [Reply, Batch]> {
    const { pipeline, server, clock, settings } = this.#runtime
    const until = clock.now() + settings.commandTimeout
    for (let tries = 1; ; tries++) {
      await server.reached(pipeline.epoch)?.catch((error) => {
        throw toFailure(error, pipeline.connection).error
      })
      const answer = await this.#answer(renew, args)
      if (!answer[1].broken) return answer
      if (tries >= 3 && clock.now() >= until)
        throw new BackendError('redis', 'the connection broke again and again')
    }
  }

  /** Does the grant still exist? No answer proves nothing: the next renewal decides. */
  #checkNow(): void {
    const looked = () => this.#hints?.queryDone()
    const answered = ([reply]: readonly [Reply, Batch]) => {
      looked()
      if (Number(reply) === 1 || !this.#runtime.holds.has(this.#claim.attempt)) return
      this.validUntil = Number.NEGATIVE_INFINITY
      this.#revoked?.abort()
    }
    this.#answer(renew, [this.#claim.attempt, '0']).then(answered, looked)
  }

  #answer(script: Script, args: readonly string[]): Promise<readonly [Reply, Batch]> {
    return new Promise((resolve, reject) => {
      this.#runtime.pipeline.ask(script, this.#keys, args, {
        answered: (reply, flight) => resolve([reply, flight]),
        failed: (error) => reject(this.#failed(error)),
      })
    })
  }

  #failed(error: unknown): BackendError {
    if (this.#runtime.clock.now() >= this.validUntil) this.drop()
    return toFailure(error, this.#runtime.pipeline.connection).error
  }
}
