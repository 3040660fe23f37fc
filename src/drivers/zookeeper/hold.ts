/**
 * Long because a grant is one state machine: proof, doubt, loss and release touch the same few fields.
 *
 * What the driver gave: an ephemeral node that is first in its line, and how long that is certain.
 *
 * ```
 *   holds ──── the connection broke ────► suspended: what was proven until then stands, no more is added
 *     ▲                                       │ connected again, and the node is still there
 *     └───────────────────────────────────────┘ else, or when the session has ended: gone
 * ```
 * It is good for its `ttl` and for as long as the session is proven, whichever ends first. All holds of a process are
 * proven by the same heartbeats. From its first renewal on the node is watched, so that its removal by an operator is known at
 * once; a section shorter than that costs no request for it.
 */
import { deadline } from '../../core/clock.js'
import type { Claim, GaveBack, Grant } from '../../core/driver.js'
import { BackendError } from '../../core/errors.js'
import { unlessAborted } from '../../core/unless-aborted.js'
import type { Desk, Own } from './desk.js'
import { readerOf } from './keys.js'
import { nearlyFull, placeOf } from './line.js'
import { recordOf } from './record.js'
import { codes, exchange, exists, getData, remove, setData } from './session/protocol.js'
import { ignore, isCode, isPassing, troubleOf } from './trouble.js'

type Node = Own & { readonly path: string }

export interface Proven {
  readonly token: number
  /** Clock reading before the request left that showed it. */
  readonly sent: number
  readonly own: Node
  /** Those behind it watch its node to hear that it holds. */
  readonly watched?: boolean
}

export class Hold implements Grant {
  readonly token: number
  readonly #desk: Desk
  readonly #claim: Claim
  readonly #lost = new AbortController()
  #own: Node
  #until: number
  /** While suspended: the last that was certain. */
  #frozen: number | undefined
  #watched = false
  #gone = false
  #verifying: Promise<void> | undefined
  #releasing: Promise<GaveBack> | undefined
  #asked = false
  /** A downgrade has been sent and not answered: the node bears this name, or still the old one. */
  #next: Node | undefined
  /** It has yet to be told to those behind it that it holds. */
  #untold: boolean
  readonly #changed = () => {
    this.#watched = false
    this.#verify().catch(() => undefined)
  }

  constructor(desk: Desk, claim: Claim, { token, sent, own, watched = false }: Proven) {
    this.#desk = desk
    this.#claim = claim
    this.token = token
    this.#own = own
    this.#until = deadline(sent, claim.ttl)
    this.#untold = watched
    desk.holds.add(this)
    this.#tell()
  }

  get lost(): AbortSignal {
    return this.#lost.signal
  }

  get path(): string {
    return this.#own.path
  }

  get name(): string {
    return this.#claim.name
  }

  get validUntil(): number {
    if (this.#gone) return Number.NEGATIVE_INFINITY
    return Math.min(this.#until, this.#frozen ?? this.#desk.session.validUntil)
  }

  /** Rejects as soon as the connection breaks: that is a doubt. When it is back, `resumed` moves `validUntil` by itself. */
  async renew(ttl: number, signal: AbortSignal): Promise<number | undefined> {
    const { session, clock } = this.#desk
    for (;;) {
      if (this.#gone || this.#releasing !== undefined) return undefined
      const sent = clock.now()
      try {
        const proof = session.prove(signal)
        if (!this.#watched) await Promise.all([proof, unlessAborted(this.#verify(), signal)])
        else await proof
      } catch (error) {
        throw signal.aborted ? signal.reason : troubleOf(error)
      }
      if (this.#gone) return undefined
      // Its node has changed meanwhile: looked at once more.
      if (!this.#watched) continue
      this.#until = Math.max(this.#until, deadline(sent, ttl))
      return this.validUntil
    }
  }

  release(): Promise<GaveBack> {
    if (this.#releasing !== undefined) {
      return this.#releasing.then((how) => (how === 'released' ? 'already-released' : how))
    }
    const releasing = this.#release()
    this.#releasing = releasing
    // When the store could not be reached, the next call asks again.
    releasing.catch(() => {
      this.#releasing = undefined
    })
    return releasing
  }

  async downgrade(): Promise<void> {
    const { session, settings, acl } = this.#desk
    const { path } = this.#own
    const next = readerOf(this.#own, settings)
    const { data } = await session.call(getData(path))
    this.#next = next
    await session.call(exchange(next.path, data, acl, path))
    this.#became(next)
  }

  suspended(): void {
    this.#frozen ??= this.#desk.session.validUntil
    this.#watched = false
  }

  resumed(): void {
    this.#verifying = undefined
    this.#verify().catch(() => undefined)
    this.#tell()
  }

  expired(): void {
    this.#end(new BackendError('zookeeper', 'the session has ended, and every node of it is gone'))
  }

  /** Written to, its node wakes whoever watches it. Told again where the connection broke: nobody else would. */
  #tell(): void {
    if (!this.#untold) return
    const { session, by } = this.#desk
    const learn = (still: boolean) => {
      this.#untold = still
    }
    session.call(setData(this.#own.path, recordOf(this.#claim, by))).then(
      () => learn(false),
      (error) => learn(isPassing(error)),
    )
  }

  /** Is the node still there? Watched from then on. */
  #verify(): Promise<void> {
    this.#verifying ??= this.#look().finally(() => {
      this.#verifying = undefined
    })
    return this.#verifying
  }

  async #look(): Promise<void> {
    const { session } = this.#desk
    const { path } = this.#own
    try {
      const { ephemeralOwner } = await session.call(exists(path, this.#changed))
      if (ephemeralOwner !== this.#own.session) return this.#end(new Error('another session has the node'))
      this.#watched = true
      this.#frozen = undefined
    } catch (error) {
      if (!isCode(error, codes.noNode)) throw error
      const next = this.#next
      if (next !== undefined) {
        // The exchange was carried out, or is under way: the answer tells which name to look for.
        if (await session.call(exists(next.path)).catch(ignore(codes.noNode))) {
          this.#became(next)
          return await this.#look()
        }
      }
      if (path === this.#own.path) this.#end(new Error('its node was removed'))
    }
  }

  async #release(): Promise<GaveBack> {
    const again = this.#asked
    this.#asked = true
    if (!this.#gone) {
      const desk = this.#desk
      // Nobody waits for the answer about one that is over.
      const waits = desk.clock.now() < this.validUntil
      const node = this.#node()
      const how = await (waits ? desk.giveBack(node) : desk.remove(node)).catch((error) => {
        throw troubleOf(error)
      })
      this.#forget()
      if ((placeOf(this.#own.path)?.number ?? 0) >= nearlyFull)
        // Refused while anybody is in line. Not waited for: it is for those who come in a long time.
        this.#desk.session.call(remove(this.#own.lock)).catch(() => undefined)
      if (how === 'removed') return 'released'
      // The first request may have been carried out although its answer was lost.
      if (how === 'absent' && again) return 'already-released'
      this.#gone = true
    }
    return 'lost'
  }

  #end(why: Error): void {
    if (this.#gone || !this.#desk.holds.has(this)) return
    if (this.#releasing !== undefined) return
    this.#gone = true
    this.#forget()
    if (this.#next !== undefined) this.#desk.remove(this.#node()).catch(() => undefined)
    this.#lost.abort(why)
  }

  #node(): Own {
    return this.#next === undefined ? this.#own : { ...this.#own, path: undefined }
  }

  #became(next: Node): void {
    this.#desk.session.drop({ kind: 'data', path: this.#own.path, fired: this.#changed })
    this.#own = next
    this.#next = undefined
    this.#watched = false
  }

  #forget(): void {
    const { holds, claims, session } = this.#desk
    holds.delete(this)
    claims.delete(this.#claim.attempt)
    this.#desk.over(this.#claim.attempt)
    session.drop({ kind: 'data', path: this.#own.path, fired: this.#changed })
  }
}
