/** One grant of the strategy `session`. It lives as long as the connection; answers on that connection prove it. */
import { deadline } from '../../../core/clock.js'
import type { Claim, Grant, ReleaseResult } from '../../../core/driver.js'
import { BackendError } from '../../../core/errors.js'
import { toFailure } from '../failure.js'
import { rowName } from './key.js'
import type { ConnectionLifetime, Session } from './session.js'

export class SessionHold implements Grant {
  readonly #session: Session
  readonly #claim: Claim
  readonly #lifetime: ConnectionLifetime
  readonly token: number
  readonly lost: AbortSignal
  #until: number
  #released = false

  constructor(
    session: Session,
    claim: Claim,
    {
      token,
      validUntil,
      lifetime,
    }: { readonly token: number; readonly validUntil: number; readonly lifetime: ConnectionLifetime },
  ) {
    this.#session = session
    this.#claim = claim
    this.#lifetime = lifetime
    this.token = token
    this.lost = lifetime.ended
    this.#until = validUntil
  }

  get validUntil(): number {
    return this.#lifetime.ended.aborted ? Number.NEGATIVE_INFINITY : this.#until
  }

  async renew(ttl: number): Promise<number | undefined> {
    if (this.#released || this.#lifetime.ended.aborted) return undefined
    this.#session.ttls.set(this.#claim.attempt, ttl)
    try {
      const { sent } = await this.#session.heartbeat(this.#lifetime)
      if (this.#released || this.#lifetime.ended.aborted) return undefined
      this.#until = deadline(sent, ttl)
      return this.validUntil
    } catch (error) {
      if (this.#lifetime.ended.aborted) return undefined
      throw toFailure(error).error
    }
  }

  async release(): Promise<ReleaseResult> {
    const again = this.#released
    this.#released = true
    this.#session.ttls.delete(this.#claim.attempt)
    // The end of the old connection has released the lock, and a new connection does not have it.
    if (this.#lifetime.ended.aborted) return again ? 'already-released' : 'lost'
    const { name, attempt } = this.#claim
    try {
      const { answer } = await this.#session.release(rowName(this.#session.namespace, name), attempt)
      if (answer === 1) return 'released'
      return again ? 'already-released' : 'lost'
    } catch (error) {
      throw toFailure(error).error
    }
  }

  async downgrade(): Promise<void> {
    const { name, attempt } = this.#claim
    const { calls, namespace } = this.#session
    const asked = this.#session.execute(calls.sessionDowngrade, () => [rowName(namespace, name), attempt])
    const { answer } = await asked.catch((error) => {
      throw toFailure(error).error
    })
    if (answer !== 1) throw new BackendError('postgres', `cannot downgrade ${name}: it is not held`)
  }
}
