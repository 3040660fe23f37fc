/** One grant of the strategy `session`: a lock that lasts as long as the connection, proven by a statement now and then. */
import { deadline } from '../../../core/clock.js'
import type { Claim, Grant, ReleaseResult } from '../../../core/driver.js'
import { BackendError } from '../../../core/errors.js'
import { LossNotice, type LossSignal } from '../../../core/loss-notice.js'
import { quote } from '../../../core/name.js'
import { tokenReserve } from '../../../core/token.js'
import { text } from '../client.js'
import { toFailure } from '../failure.js'
import type { HoldProof } from '../hold.js'
import type { Runtime } from '../runtime.js'
import * as sql from '../sql.js'
import type { Session } from './session.js'

/** One statement proves all locks of one session: it reads the owners of the rows, and keeps the connection alive. */
export class Heartbeat {
  readonly #runtime: Runtime
  readonly #session: Session
  #names: Set<string> = new Set()
  #next: Promise<{ readonly owners: ReadonlyMap<string, string>; readonly sent: number }> | undefined

  constructor(runtime: Runtime, session: Session) {
    this.#runtime = runtime
    this.#session = session
  }

  /** All requests of one tick share a statement. */
  prove(name: string): Promise<{ readonly owners: ReadonlyMap<string, string>; readonly sent: number }> {
    this.#names.add(name)
    this.#next ??= new Promise<void>((resolve) => process.nextTick(resolve)).then(() => this.#send())
    return this.#next
  }

  async #send() {
    const names = [...this.#names]
    this.#names = new Set()
    this.#next = undefined
    const { rows, sent } = await this.#session.execute(sql.owners(this.#runtime.tables, names))
    return { owners: new Map(rows.map(([name, owner]) => [text(name), text(owner)])), sent }
  }
}

export class SessionHold implements Grant {
  readonly token: number
  #until: number
  readonly #runtime: Runtime
  readonly #claim: Claim
  readonly #session: Session
  readonly #heartbeat: Heartbeat
  readonly #left: Promise<void> | undefined
  readonly #ended: () => void
  #last: number
  #asked = false
  #revoked = false
  #gone: LossNotice | undefined

  /** @param ended called when the grant has been released */
  constructor(
    runtime: Runtime,
    claim: Claim,
    session: Session,
    heartbeat: Heartbeat,
    proven: HoldProof,
    ended: () => void,
  ) {
    this.#runtime = runtime
    this.#claim = claim
    this.#session = session
    this.#heartbeat = heartbeat
    this.#left = proven.left
    this.#ended = ended
    this.token = proven.token
    this.#last = proven.token
    this.#until = proven.validUntil
  }

  get lost(): LossSignal {
    if (this.#gone === undefined) {
      this.#gone = new LossNotice()
      const { signal } = this.#session.ended
      if (signal.aborted) this.#onEnd()
      else signal.addEventListener('abort', this.#onEnd, { once: true })
    }
    return this.#gone
  }

  readonly #onEnd = () => this.#gone?.abort(this.#session.ended.signal.reason)

  #close(): void {
    this.#session.ended.signal.removeEventListener('abort', this.#onEnd)
    this.#ended()
  }

  /** An operator in this process takes it by force: the connection stays, with its other locks. */
  async revoke(): Promise<void> {
    this.#revoked = true
    this.#until = Number.NEGATIVE_INFINITY
    const unlocked = this.#unlock()
    this.#gone?.abort(new BackendError('mysql', `${quote(this.#claim.name)} was taken by force`))
    await unlocked
  }

  /** The next request comes behind it on the same connection, even if its answer comes too late. */
  #unlock(): Promise<unknown> | undefined {
    const { name, attempt } = this.#claim
    const { owners } = this.#session
    if (owners.get(name) !== attempt) return undefined
    return this.#session.unlock(name, sql.unlock(this.#runtime.tables, name))
  }

  get validUntil(): number {
    return this.#session.isOver ? Number.NEGATIVE_INFINITY : this.#until
  }

  async renew(ttl: number): Promise<number | undefined> {
    const { name, attempt } = this.#claim
    if (this.#session.isOver || this.#asked) return undefined
    try {
      await this.#session.atLeast(ttl)
      const { owners, sent } = await this.#heartbeat.prove(name)
      if (owners.get(name) !== attempt || this.#revoked) return undefined
      this.#until = deadline(sent, ttl)
      return this.validUntil
    } catch (error) {
      if (this.#session.isOver) return undefined
      throw toFailure(error).error
    }
  }

  async release(): Promise<ReleaseResult> {
    const { name } = this.#claim
    const again = this.#asked
    this.#asked = true
    const { tables, clock } = this.#runtime
    const session = this.#session
    if (session.isOver) {
      this.#close()
      return again && clock.now() < this.validUntil ? 'already-released' : 'lost'
    }
    try {
      const row = session.execute(sql.release(tables, this.#claim, this.#last))
      // Both are in flight before the first is answered: no other statement of this process can come in between.
      const lock = this.#unlock()
      lock?.catch(() => undefined)
      const { id } = await row
      await lock
      this.#close()
      await this.#left
      this.#runtime.waiters.wakeFirst(name)
      if (id !== 0) return 'released'
      return again && clock.now() < this.validUntil ? 'already-released' : 'lost'
    } catch (error) {
      throw toFailure(error).error
    }
  }

  nextReservedToken(): number | undefined {
    if (this.#last - this.token >= tokenReserve) return undefined
    this.#last++
    return this.#last
  }
}
