/** Consul's part of a hold: the lock and its queue entry, or for readers and permits the entry alone. */
import type { Claim } from '../../core/driver.js'
import { BackendError } from '../../core/errors.js'
import { shared } from '../../core/mode.js'
import { quote } from '../../core/name.js'
import { type EntryStore, SessionHold } from '../kit/sessions/hold.js'
import type { Session } from '../kit/sessions/session.js'
import type { Operation } from './api-types.js'
import type { Said } from './client.js'
import { Refusal, toFailure } from './failure.js'
import type { Line } from './keys.js'
import { type Place, placeOf, viewOf, withPass, withToken, writtenOf } from './queue-entry.js'
import { type Conditional, type Desk, lockMember } from './runtime.js'
import { downgrade, free, leave, letGo, look, move, note, pass } from './transactions.js'

/** @param doubt a request for the entry may still be in flight, and must not find the attempt open when it arrives */
export function holdOf(
  desk: Desk,
  line: Line,
  claim: Claim,
  session: Session,
  { token, sent }: { readonly token: number; readonly sent: number },
  value: string,
  doubt: boolean,
): SessionHold {
  const noted = doubt ? note(line, claim.attempt, session.id) : []
  const place = new HeldPlace(desk, line, claim, token, value, noted)
  return new SessionHold(desk, place, session, token, sent, claim.ttl)
}

class HeldPlace implements EntryStore, Conditional {
  readonly #desk: Desk
  readonly #line: Line
  readonly #claim: Claim
  #value: string
  #noted: readonly Operation[]
  #token: number
  #passes = 0
  /** The index of the lock after our last write; undefined: held by the entry alone. */
  #index: number | undefined
  /** A move or a pass was sent and not answered: the lock has either the known index or an unknown one. */
  #doubt = false
  #moved: Promise<unknown> = Promise.resolve()

  constructor(
    desk: Desk,
    line: Line,
    claim: Claim,
    token: number,
    value: string,
    noted: readonly Operation[],
  ) {
    this.#desk = desk
    this.#line = line
    this.#claim = claim
    this.#value = value
    this.#noted = noted
    this.#token = token
    this.#index = claim.mode.kind === 'exclusive' ? token : undefined
    desk.held.add({ name: claim.name, token }, this)
  }

  get attempt(): string {
    return this.#claim.attempt
  }

  get key(): string {
    const { lock } = this.#line
    const index = this.#doubt ? undefined : this.#index
    return index === undefined ? this.#line.place(this.#claim.attempt) : lockMember(lock, index)
  }

  /** A condition that holds in a transaction while the lock, or the entry, exists. */
  get condition(): Operation {
    const { lock } = this.#line
    return this.#index === undefined
      ? { KV: { Verb: 'get', Key: this.#line.place(this.#claim.attempt) } }
      : { KV: { Verb: 'check-index', Key: lock, Index: this.#index } }
  }

  async remove(): Promise<{ existed: boolean; repeated: boolean }> {
    try {
      return await this.#remove()
    } catch (error) {
      // After the session has ended, no request in flight can take effect; the hold itself may have been moved to another session.
      if (this.#noted.length === 0 || !(error instanceof Refusal && error.noSession)) throw error
      this.#noted = []
      return this.#remove()
    }
  }

  async #remove(): Promise<{ existed: boolean; repeated: boolean }> {
    const { client } = this.#desk
    const { attempt } = this.#claim
    if (this.#index === undefined) {
      const { done, repeated } = await client.txn([...leave(this.#line, attempt, true), ...this.#noted])
      return { existed: done, repeated }
    }
    const { done, repeated } = await client.txn([...free(this.#line, attempt, this.#index), ...this.#noted])
    if (done) return { existed: true, repeated }
    // The lock has changed. First remove the entry, which may be ours: without it, no request in flight can move the lock. Then remove the
    // lock, if it was moved.
    await client.txn([...leave(this.#line, attempt, false), ...this.#noted])
    const own = await this.#own('lock')
    const moved = own !== undefined && (await client.txn(letGo(this.#line, own.index))).done
    return { existed: moved, repeated }
  }

  /** Rewrites the lock, whose new index is the token. The value must differ: Consul gives an equal one no new index. */
  async mint({ id }: Session): Promise<number | undefined> {
    if (this.#index === undefined) return undefined
    const { client, held } = this.#desk
    const { name, attempt } = this.#claim
    held.drop({ name, token: this.#token }, this)
    const value = withPass(this.#value, ++this.#passes)
    this.#doubt = true
    const said = await client.txn(pass(this.#line, attempt, this.#index, value, id))
    if (!said.done) return undefined
    this.#index = indexIn(said, this.#line.lock)
    this.#doubt = false
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
    const { lock } = this.#line
    const value = withToken(this.#value, this.#token)
    const place = { key: this.#line.place(this.#claim.attempt), value, lock: false }
    const keys = this.#index === undefined ? [place] : [place, { key: lock, value, lock: true }]
    for (let owner = from.id; ; ) {
      this.#doubt = true
      const said = await this.#desk.client.txn(move(keys, owner, to.id))
      const own = said.done ? undefined : await this.#own(this.#index === undefined ? 'place' : 'lock')
      this.#doubt = false
      if (said.done || own?.session === to.id) {
        if (this.#index !== undefined) this.#index = own?.index ?? indexIn(said, lock)
        return true
      }
      if (own === undefined || own.session === owner || own.session === '') return false
      owner = own.session
    }
  }

  /** Our lock, or our queue entry, as the store has it. Undefined: it does not exist. */
  async #own(which: 'lock' | 'place'): Promise<Place | undefined> {
    const { found } = await this.#desk.client.read(look(this.#line))
    const { line, lock } = viewOf(this.#line, found)
    const { attempt } = this.#claim
    return (which === 'lock' ? [lock] : line).find((own) => own?.attempt === attempt)
  }

  async downgrade({ id }: Session): Promise<void> {
    const { name, attempt } = this.#claim
    if (this.#index === undefined) return
    const { client, env } = this.#desk
    const written = writtenOf({ ...this.#claim, mode: shared }, client.time.now(), env.client, true)
    const value = withToken(written, this.#token)
    const { done } = await client.txn(downgrade(this.#line, attempt, this.#index, value, id))
    if (!done && (await this.#own('place'))?.value !== value)
      throw new BackendError('consul', `cannot downgrade ${quote(name)}: it is not held`)
    this.#index = undefined
    this.#value = value
  }

  onEnded(): void {
    this.#desk.held.drop({ name: this.#claim.name, token: this.#token }, this)
  }

  toError(error: unknown): Error {
    return toFailure(error).error
  }
}

/** The index of a key after a transaction that wrote it. */
export function indexIn({ found }: Said, key: string): number {
  const kv = found.get(key)
  if (kv === undefined) throw new Error(`a transaction did not tell what it wrote to ${key}`)
  return placeOf(kv).index
}
