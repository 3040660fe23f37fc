/**
 * Consul's part of a hold: the lock and its queue entry, or for readers and permits the entry alone.
 * Long because every step of a hold uses the same index and session.
 */
import type { Claim } from '../../core/driver.js'
import { BackendError } from '../../core/errors.js'
import { shared } from '../../core/mode.js'
import { quote } from '../../core/name.js'
import { type EntryStore, SessionHold } from '../kit/sessions/hold.js'
import type { Session } from '../kit/sessions/session.js'
import type { Operation } from './api-types.js'
import type { TxnResult } from './client.js'
import { Refusal, toFailure } from './failure.js'
import type { LockKeys } from './keys.js'
import {
  encodeEntry,
  type QueueEntry,
  toQueueEntry,
  toQueueView,
  withHandoffs,
  withToken,
} from './queue-entry.js'
import { type LeaseCondition, lockMember, type Runtime } from './runtime.js'
import {
  downgrade,
  freeLock,
  leave,
  mintToken,
  move,
  readQueue,
  releaseLock,
  writeTombstone,
} from './transactions.js'

/** @param ambiguous a request for the entry may still be in flight, and must not find the attempt open when it arrives */
export function createHold(
  runtime: Runtime,
  keys: LockKeys,
  claim: Claim,
  session: Session,
  { token, sent }: { readonly token: number; readonly sent: number },
  value: string,
  ambiguous: boolean,
): SessionHold {
  const tombstone = ambiguous ? writeTombstone(keys, claim.attempt, session.id) : []
  const entry = new HeldEntry(runtime, keys, claim, token, value, tombstone)
  return new SessionHold(runtime, entry, session, token, sent, claim.ttl)
}

class HeldEntry implements EntryStore, LeaseCondition {
  readonly #runtime: Runtime
  readonly #keys: LockKeys
  readonly #claim: Claim
  #value: string
  #tombstone: readonly Operation[]
  #token: number
  #handoffs = 0
  /** The index of the lock after our last write; undefined: held by the entry alone. */
  #index: number | undefined
  /** A move or a pass was sent and not answered: the lock has either the known index or an unknown one. */
  #ambiguous = false
  #moved: Promise<unknown> = Promise.resolve()

  constructor(
    runtime: Runtime,
    keys: LockKeys,
    claim: Claim,
    token: number,
    value: string,
    tombstone: readonly Operation[],
  ) {
    this.#runtime = runtime
    this.#keys = keys
    this.#claim = claim
    this.#value = value
    this.#tombstone = tombstone
    this.#token = token
    this.#index = claim.mode.kind === 'exclusive' ? token : undefined
    runtime.held.add({ name: claim.name, token }, this)
  }

  get attempt(): string {
    return this.#claim.attempt
  }

  get key(): string {
    const { lock } = this.#keys
    const index = this.#ambiguous ? undefined : this.#index
    return index === undefined ? this.#keys.entry(this.#claim.attempt) : lockMember(lock, index)
  }

  /** A condition that holds in a transaction while the lock, or the entry, exists. */
  get condition(): Operation {
    const { lock } = this.#keys
    return this.#index === undefined
      ? { KV: { Verb: 'get', Key: this.#keys.entry(this.#claim.attempt) } }
      : { KV: { Verb: 'check-index', Key: lock, Index: this.#index } }
  }

  async remove(): Promise<{ existed: boolean; repeated: boolean }> {
    try {
      return await this.#remove()
    } catch (error) {
      // After the session has ended, no request in flight can take effect; the hold itself may have been moved to another session.
      if (this.#tombstone.length === 0 || !(error instanceof Refusal && error.noSession)) throw error
      this.#tombstone = []
      return this.#remove()
    }
  }

  async #remove(): Promise<{ existed: boolean; repeated: boolean }> {
    const { client } = this.#runtime
    const { attempt } = this.#claim
    if (this.#index === undefined) {
      const { committed, repeated } = await client.txn([
        ...leave(this.#keys, attempt, true),
        ...this.#tombstone,
      ])
      return { existed: committed, repeated }
    }
    const { committed, repeated } = await client.txn([
      ...releaseLock(this.#keys, attempt, this.#index),
      ...this.#tombstone,
    ])
    if (committed) return { existed: true, repeated }
    // The lock has changed. First remove the entry, which may be ours: without it, no request in flight can move the lock. Then remove the
    // lock, if it was moved.
    await client.txn([...leave(this.#keys, attempt, false), ...this.#tombstone])
    const own = await this.#readOwn('lock')
    const moved = own !== undefined && (await client.txn(freeLock(this.#keys, own.index))).committed
    return { existed: moved, repeated }
  }

  /** Rewrites the lock, whose new index is the token. The value must differ: Consul gives an equal one no new index. */
  async mint({ id }: Session): Promise<number | undefined> {
    if (this.#index === undefined) return undefined
    const { client, held } = this.#runtime
    const { name, attempt } = this.#claim
    held.drop({ name, token: this.#token }, this)
    const value = withHandoffs(this.#value, ++this.#handoffs)
    this.#ambiguous = true
    const reply = await client.txn(mintToken(this.#keys, attempt, this.#index, value, id))
    if (!reply.committed) return undefined
    this.#index = modifyIndex(reply, this.#keys.lock)
    this.#ambiguous = false
    this.#value = value
    this.#token = this.#index
    held.add({ name, token: this.#token }, this)
    return this.#token
  }

  settled(): Promise<unknown> {
    return this.#moved
  }

  move(from: Session, to: Session): Promise<boolean> {
    const moving = this.#move(from, to)
    this.#moved = moving.catch(() => undefined)
    return moving
  }

  /** An earlier try whose answer was lost may have moved the hold: its current session then shows that. */
  async #move(from: Session, to: Session): Promise<boolean> {
    const { lock } = this.#keys
    const value = withToken(this.#value, this.#token)
    const entry = { key: this.#keys.entry(this.#claim.attempt), value, lock: false }
    const keys = this.#index === undefined ? [entry] : [entry, { key: lock, value, lock: true }]
    for (let owner = from.id; ; ) {
      this.#ambiguous = true
      const reply = await this.#runtime.client.txn(move(keys, owner, to.id))
      const own = reply.committed
        ? undefined
        : await this.#readOwn(this.#index === undefined ? 'entry' : 'lock')
      this.#ambiguous = false
      if (reply.committed || own?.session === to.id) {
        if (this.#index !== undefined) this.#index = own?.index ?? modifyIndex(reply, lock)
        return true
      }
      if (own === undefined || own.session === owner || own.session === '') return false
      owner = own.session
    }
  }

  /** Our lock, or our queue entry, as the store has it. Undefined: it does not exist. */
  async #readOwn(which: 'lock' | 'entry'): Promise<QueueEntry | undefined> {
    const { found } = await this.#runtime.client.read(readQueue(this.#keys))
    const { entries, lock } = toQueueView(this.#keys, found)
    const { attempt } = this.#claim
    return (which === 'lock' ? [lock] : entries).find((own) => own?.attempt === attempt)
  }

  async downgrade({ id }: Session): Promise<void> {
    const { name, attempt } = this.#claim
    if (this.#index === undefined) return
    const { client, env } = this.#runtime
    const written = encodeEntry({ ...this.#claim, mode: shared }, client.time.now(), env.client, true)
    const value = withToken(written, this.#token)
    const { committed } = await client.txn(downgrade(this.#keys, attempt, this.#index, value, id))
    if (!committed && (await this.#readOwn('entry'))?.value !== value)
      throw new BackendError('consul', `cannot downgrade ${quote(name)}: it is not held`)
    this.#index = undefined
    this.#value = value
  }

  onEnded(): void {
    this.#runtime.held.drop({ name: this.#claim.name, token: this.#token }, this)
  }

  toError(error: unknown): Error {
    return toFailure(error).error
  }
}

/** The index of a key after a transaction that wrote it. */
export function modifyIndex({ found }: TxnResult, key: string): number {
  const kv = found.get(key)
  if (kv === undefined) throw new Error(`the reply to a transaction does not contain what it wrote to ${key}`)
  return toQueueEntry(kv).index
}
