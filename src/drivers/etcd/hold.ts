/** etcd's part of a hold: removes its key, moves it to another lease, or rewrites it at its position in the queue. */
import type { Claim } from '../../core/driver.js'
import { BackendError } from '../../core/errors.js'
import { shared } from '../../core/mode.js'
import { quote } from '../../core/name.js'
import { type EntryStore, SessionHold } from '../kit/sessions/hold.js'
import type { Session } from '../kit/sessions/session.js'
import type { TxnReply } from './api-types.js'
import { Refusal, toFailure } from './failure.js'
import { base64, type LockKeys } from './keys.js'
import { encodeEntry } from './queue-entry.js'
import type { GuardedEntry, Runtime } from './runtime.js'
import { giveUp, mintToken, move, rewrite } from './transactions.js'

export interface EntryGrant {
  /** The create revision of the entry. */
  readonly created: number
  /** The revision of its last write. */
  readonly token: number
  /** The clock reading from before the request that took it was sent. */
  readonly sent: number
  /** A request for the entry may still be in flight, and must not find the attempt open when it arrives. */
  readonly ambiguous: boolean
}

export function createHold(
  runtime: Runtime,
  keys: LockKeys,
  claim: Claim,
  session: Session,
  taken: EntryGrant,
): SessionHold {
  return new SessionHold(
    runtime,
    new HeldEntry(runtime, keys, claim, session, taken),
    session,
    taken.token,
    taken.sent,
    claim.ttl,
  )
}

class HeldEntry implements EntryStore, GuardedEntry {
  readonly key: string
  readonly created: number
  guarded = false
  readonly #runtime: Runtime
  readonly #keys: LockKeys
  readonly #claim: Claim
  /** The session of the requests that may still be in flight. */
  readonly #session: Session
  readonly #ambiguous: boolean
  readonly #since: number
  #token: number
  /** The revision of the last write; undefined: not known. */
  #modified: number | undefined

  constructor(
    runtime: Runtime,
    keys: LockKeys,
    claim: Claim,
    session: Session,
    { created, token, ambiguous }: EntryGrant,
  ) {
    this.#runtime = runtime
    this.#keys = keys
    this.#claim = claim
    this.#session = session
    this.#ambiguous = ambiguous
    this.#since = runtime.client.time.now()
    this.key = keys.entry(claim.attempt)
    this.created = created
    this.#token = token
    this.#modified = token
    this.#register()
  }

  get attempt(): string {
    return this.#claim.attempt
  }

  async remove(): Promise<{ existed: boolean; repeated: boolean }> {
    const { client } = this.#runtime
    if (this.#ambiguous) {
      try {
        const { is, repeated } = await client.txn(giveUp(this.#keys, this.attempt, this.#session.id))
        return { existed: is.responses?.[0]?.response_delete_range?.deleted === '1', repeated }
      } catch (error) {
        // After the lease has ended, no request in flight can create the entry; the hold itself may have been moved to another lease.
        if (!(error instanceof Refusal && error.noSession)) throw error
      }
    }
    const { is, repeated } = await client.remove(this.key)
    return { existed: is.deleted === '1', repeated }
  }

  async mint(): Promise<number | undefined> {
    const modified = this.#modified
    if (this.guarded || modified === undefined) return undefined
    this.#unregister()
    this.#modified = undefined
    const ask = mintToken(this.#keys, this.attempt, this.created, modified, this.#value(this.#claim))
    const { is } = await this.#runtime.client.txn(ask)
    if (is.succeeded !== true) return undefined
    this.#token = Number(is.header.revision)
    this.#modified = this.#token
    this.#register()
    return this.#token
  }

  async move(from: Session, to: Session): Promise<boolean> {
    const value = this.#value(this.#claim, this.#token)
    this.#modified = undefined
    // The entry may already be under another lease, after a try whose answer was lost.
    for (let lease = from.id; ; ) {
      const { is } = await this.#runtime.client.txn(move(this.key, this.created, lease, to.id, value))
      if (is.succeeded === true) {
        this.#modified = Number(is.header.revision)
        return true
      }
      const now = findLease(is, this.created)
      if (now === undefined || now === to.id) return now !== undefined
      lease = now
    }
  }

  async downgrade({ id }: Session): Promise<void> {
    const value = this.#value({ ...this.#claim, mode: shared }, this.#token)
    this.#modified = undefined
    for (let lease = id; ; ) {
      const { is } = await this.#runtime.client.txn(rewrite(this.key, this.created, value, lease))
      if (is.succeeded === true) return
      const now = findLease(is, this.created)
      if (now === undefined)
        throw new BackendError('etcd', `cannot downgrade ${quote(this.#claim.name)}: it is not held`)
      lease = now
    }
  }

  onEnded(): void {
    this.#unregister()
  }

  toError(error: unknown): Error {
    return toFailure(error).error
  }

  #value(claim: Claim, token?: number): string {
    return base64(encodeEntry(claim, this.#since, this.#runtime.env.client, token))
  }

  #register(): void {
    this.#runtime.held.add({ name: this.#claim.name, token: this.#token }, this)
    this.#runtime.tokens.set(this.key, this.#token)
  }

  #unregister(): void {
    this.#runtime.held.drop({ name: this.#claim.name, token: this.#token }, this)
    if (this.#runtime.tokens.get(this.key) === this.#token) this.#runtime.tokens.delete(this.key)
  }
}

/** The lease of the entry, from the answer to `move` or `rewrite`. Undefined: the entry is gone. */
function findLease({ responses }: TxnReply, created: number): string | undefined {
  const kv = responses?.[0]?.response_range?.kvs?.[0]
  return kv?.create_revision === String(created) ? (kv.lease ?? '0') : undefined
}
