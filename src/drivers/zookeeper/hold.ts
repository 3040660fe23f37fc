/**
 * A grant: an ephemeral node at the head of its queue, and how long its ownership is certain. The diagram is at {@link Hold}.
 *
 * A hold is valid for its `ttl` or for as long as the session is proven, whichever ends first. The same heartbeats prove all
 * holds of a process. From the first renewal on, the hold watches its node, so that it learns of an operator's removal at once;
 * a critical section that ends earlier costs no request for this.
 *
 * Long because a grant is one state machine: proof, doubt, loss and release touch the same few fields.
 */
import { deadline } from '../../core/clock.js'
import type { Claim, Grant, ReleaseResult } from '../../core/driver.js'
import { BackendError } from '../../core/errors.js'
import { LossNotice } from '../../core/loss-notice.js'
import { orAborted } from '../../core/or-aborted.js'
import { ignore, isCode, isTransient, toFailure } from './failure.js'
import { toReaderNode } from './keys.js'
import { parseEntry, sequenceLimit } from './queue.js'
import { encodeRecord } from './record.js'
import type { OwnNode, Runtime } from './runtime.js'
import { codes, exchange, exists, getData, remove, setData } from './session/protocol.js'
import { stamped } from './stamp.js'

type Node = OwnNode & { readonly path: string }

export interface Proven {
  readonly token: number
  /** The clock reading from before the request was sent that proved it. */
  readonly sent: number
  readonly own: Node
  /** The waiters behind it watch its node to learn that it holds. */
  readonly watched?: boolean
}

/**
 * ```
 *   holds ──── the connection broke ────► suspended: validity proven so far stands, none is added
 *     ▲                                       │ connected again, and the node still exists
 *     └───────────────────────────────────────┘ else, or when the session has ended: gone
 * ```
 */
export class Hold implements Grant {
  /** A condition for a user's own `multi` was handed out. It names the node, so the node must end with this lease. */
  guarded = false
  readonly #runtime: Runtime
  #token: number
  readonly #claim: Claim
  readonly lost: LossNotice = new LossNotice()
  #own: Node
  #until: number
  /** While suspended: the last proven `validUntil` of the session. */
  #suspendedUntil: number | undefined
  #watched = false
  #gone = false
  #verifying: Promise<void> | undefined
  #releasing: Promise<ReleaseResult> | undefined
  #renamePending = false
  /** A downgrade was sent and not answered: the node has this name or still the old one. */
  #nextNode: Node | undefined
  /** The waiters behind it have yet to be notified that it holds. */
  #notifyPending: boolean
  readonly #onChange = () => {
    this.#watched = false
    // We removed the node ourselves.
    if (this.#releasing !== undefined || this.#gone) return
    this.#verify().catch(() => undefined)
  }

  constructor(runtime: Runtime, claim: Claim, { token, sent, own, watched = false }: Proven) {
    this.#runtime = runtime
    this.#claim = claim
    this.#token = token
    this.#own = own
    this.#until = deadline(sent, claim.ttl)
    this.#notifyPending = watched
    runtime.holds.add(this)
    this.#notifyWaiters()
  }

  get token(): number {
    return this.#token
  }

  /** At most what the session allows. */
  get maxTtl(): number {
    return this.#runtime.session.maxLeaseTtl
  }

  get path(): string {
    return this.#own.path
  }

  get name(): string {
    return this.#claim.name
  }

  get validUntil(): number {
    if (this.#gone) return Number.NEGATIVE_INFINITY
    return Math.min(this.#until, this.#suspendedUntil ?? this.#runtime.session.validUntil)
  }

  /** Rejects as soon as the connection breaks: ownership is then in doubt. After the reconnect, `resumed` moves `validUntil` by itself. */
  async renew(ttl: number, signal: AbortSignal): Promise<number | undefined> {
    const { session, clock } = this.#runtime
    for (;;) {
      if (this.#gone || this.#releasing !== undefined) return undefined
      // The last heartbeat is enough where a newer one would prove no more, or hardly more.
      const since = Math.min(clock.now() - ttl / 20, session.validUntil - deadline(0, ttl))
      let sent: number
      try {
        const proof = session.prove(signal, since)
        if (!this.#watched) await Promise.all([proof, orAborted(this.#verify(), signal)])
        sent = await proof
      } catch (error) {
        throw signal.aborted ? signal.reason : toFailure(error)
      }
      if (this.#gone) return undefined
      // The node changed meanwhile: verify it again.
      if (!this.#watched) continue
      this.#until = deadline(sent, ttl)
      return this.validUntil
    }
  }

  release(): Promise<ReleaseResult> {
    if (this.#releasing !== undefined) {
      return this.#releasing.then((how) => (how === 'released' ? 'already-released' : how))
    }
    const releasing = this.#release()
    this.#releasing = releasing
    // If the store was unreachable, the next call retries.
    releasing.catch(() => {
      this.#releasing = undefined
    })
    return releasing
  }

  /** After a failure the core releases the grant. A token that was minted all the same is never used. */
  async nextToken(): Promise<number | undefined> {
    const { path, lock } = this.#own
    // The one node of a simple lock says whose it is, and cannot be stamped.
    if (this.#gone || this.#releasing !== undefined || this.guarded || path === lock) return undefined
    this.#token = Number.NaN
    try {
      const token = await stamped(this.#runtime.session, this.#own)
      if (token !== undefined) this.#token = token
      return token
    } catch (error) {
      if (isCode(error, codes.noAuth)) return undefined
      throw toFailure(error)
    }
  }

  async downgrade(): Promise<void> {
    const { session, settings, acl } = this.#runtime
    const { path } = this.#own
    const next = toReaderNode(this.#own, settings)
    const { data } = await session.call(getData(path))
    this.#nextNode = next
    await session.call(exchange(next.path, data, acl, path))
    this.#adoptNode(next)
  }

  suspended(): void {
    this.#suspendedUntil ??= this.#runtime.session.validUntil
    this.#watched = false
  }

  resumed(): void {
    this.#verifying = undefined
    this.#verify().catch(() => undefined)
    this.#notifyWaiters()
  }

  expired(): void {
    this.#end(new BackendError('zookeeper', 'the session has ended, and every node of it is gone'))
  }

  /** A write to the node wakes its watchers. It is repeated after a broken connection, because nothing else would wake them. */
  #notifyWaiters(): void {
    if (!this.#notifyPending) return
    const { session, client } = this.#runtime
    const learn = (still: boolean) => {
      this.#notifyPending = still
    }
    session.call(setData(this.#own.path, encodeRecord(this.#claim, client))).then(
      () => learn(false),
      (error) => learn(isTransient(error)),
    )
  }

  /** Checks that the node still exists, and watches it from then on. */
  #verify(): Promise<void> {
    this.#verifying ??= this.#readNode().finally(() => {
      this.#verifying = undefined
    })
    return this.#verifying
  }

  async #readNode(): Promise<void> {
    const { session } = this.#runtime
    const { path } = this.#own
    try {
      // `getData`, not `exists`: on a removed node `exists` leaves a watch that nothing fires.
      const { ephemeralOwner } = (await session.call(getData(path, this.#onChange))).stat
      if (ephemeralOwner !== this.#own.session) return this.#end(new Error('another session has the node'))
      this.#watched = true
      this.#suspendedUntil = undefined
    } catch (error) {
      if (!isCode(error, codes.noNode)) throw error
      const next = this.#nextNode
      if (next !== undefined) {
        // The exchange was carried out, or is in flight: this answer shows which of the two names to use.
        if (await session.call(exists(next.path)).catch(ignore(codes.noNode))) {
          this.#adoptNode(next)
          return await this.#readNode()
        }
      }
      if (path === this.#own.path) this.#end(new Error('its node was removed'))
    }
  }

  async #release(): Promise<ReleaseResult> {
    const again = this.#renamePending
    this.#renamePending = true
    if (!this.#gone) {
      const runtime = this.#runtime
      // After the lease has expired, `release` does not wait for a reconnect.
      const waits = runtime.clock.now() < this.validUntil
      const node = this.#node()
      const how = await (waits ? runtime.removeOrRetry(node) : runtime.remove(node)).catch((error) => {
        throw toFailure(error)
      })
      this.#unregister()
      if ((parseEntry(this.#own.path)?.number ?? 0) >= sequenceLimit)
        // Refused while the queue has entries. Not awaited: it matters only to requests in the distant future.
        this.#runtime.session.call(remove(this.#own.lock)).catch(() => undefined)
      if (how === 'removed') return 'released'
      // The first request may have been carried out although its answer was lost.
      if (how === 'absent' && again) return 'already-released'
      this.#gone = true
    }
    return 'lost'
  }

  #end(why: Error): void {
    if (this.#gone || !this.#runtime.holds.has(this)) return
    if (this.#releasing !== undefined) return
    this.#gone = true
    this.#unregister()
    if (this.#nextNode !== undefined) this.#runtime.remove(this.#node()).catch(() => undefined)
    this.lost.abort(why)
  }

  #node(): OwnNode {
    return this.#nextNode === undefined ? this.#own : { ...this.#own, path: undefined }
  }

  #adoptNode(next: Node): void {
    this.#runtime.session.drop({ kind: 'data', path: this.#own.path, fired: this.#onChange })
    this.#own = next
    this.#nextNode = undefined
    this.#watched = false
  }

  #unregister(): void {
    const { holds, claims, session } = this.#runtime
    holds.delete(this)
    claims.delete(this.#claim.attempt)
    this.#runtime.rememberEnded(this.#claim.attempt)
    session.drop({ kind: 'data', path: this.#own.path, fired: this.#onChange })
  }
}
