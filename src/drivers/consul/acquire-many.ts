/**
 * Several claims in one transaction: an entry in each queue, and for exclusive claims the lock. As with one claim, the transaction cannot
 * check that no entry is ahead; it therefore reads the queues after entering them. Unless all claims are next in their queues, a second
 * transaction frees everything. No client ever sees a part.
 *
 * ```
 *   claimAll ── done, and no entry in the way in any queue ──► granted
 *     │  └──── done, but it is not our turn in one ──────────► undoAll: nothing
 *     ▼ refused
 *   look: all ours (its answer was lost) ──► granted;  one is taken ──► nothing;  locks left without an owner ──► claimAll over them
 * ```
 */
import type { Claim, Grant, Wait } from '../../core/driver.js'
import { SessionClaim } from '../kit/sessions/claim.js'
import { isGranted } from '../kit/sessions/order.js'
import type { Session } from '../kit/sessions/session.js'
import type { TxnResult } from './client.js'
import { Refusal, toFailure } from './failure.js'
import { createHold, modifyIndex } from './hold.js'
import { encodeEntry, type QueueEntry, type QueueView, toQueueView } from './queue-entry.js'
import type { Runtime } from './runtime.js'
import {
  type BatchPart,
  claimAll,
  freeLock,
  leave,
  readQueue,
  undoAll,
  writeTombstone,
} from './transactions.js'

/** Each claim takes five operations, and a transaction may have 64. */
export const maxBatch = 12
/** The transaction is repeated when it finds locks left without an owner, but at most this often. */
const maxAttempts = 5

interface Part extends BatchPart {
  readonly claim: Claim
}

/** The key that one part has in the store. */
type OwnKey = QueueEntry | undefined

export class BatchClaim {
  readonly #runtime: Runtime
  readonly #wait: Wait
  readonly #parts: readonly Part[]
  readonly #ttl: number
  readonly #own: SessionClaim

  constructor(runtime: Runtime, claims: readonly Claim[], wait: Wait) {
    const { client, env } = runtime
    this.#runtime = runtime
    this.#wait = wait
    this.#ttl = Math.max(...claims.map(({ ttl }) => ttl))
    this.#parts = claims.map((claim) => {
      const { name, attempt, mode } = claim
      return {
        claim,
        keys: runtime.lockKeys(name),
        attempt,
        mode,
        value: encodeEntry(claim, client.time.now(), env.client, true),
      }
    })
    // The first claim represents all for the session and the deadline.
    const first = claims[0] as Claim
    const key = runtime.lockKeys(first.name).entry(first.attempt)
    this.#own = new SessionClaim(runtime, { ...first, ttl: this.#ttl }, wait, key, {
      toFailure,
      removeEntry: (session) => this.#leave(session),
    })
  }

  /** @returns a grant for each claim, or undefined: then no key is left */
  tryOnce(): Promise<readonly Grant[] | undefined> {
    return this.#own.tryOnce(() => this.#attempt())
  }

  async #attempt(): Promise<readonly Grant[] | undefined> {
    const own = this.#own
    let left: readonly (number | undefined)[] = []
    for (let tries = 0; tries < maxAttempts && !this.#wait.ended; tries++) {
      const session = await own.session()
      const reply = await own.createEntry(session, () =>
        this.#runtime.client.txn(claimAll(this.#parts, session.id, left)),
      )
      if (reply === undefined) continue
      if (reply.committed) return await this.#grantOrUndo(reply, session)
      const { found, sent } = await this.#runtime.client.read(
        this.#parts.flatMap(({ keys }) => readQueue(keys)),
      )
      const views = this.#parts.map(({ keys }) => toQueueView(keys, found))
      const mine = this.#parts.map((part, i) => findOwn(part, views[i], session))
      const turn = this.#parts.every((part, i) => this.#isGranted(part, views[i]))
      if (turn && mine.every((entry) => entry !== undefined))
        return await this.#granted(session, (i) => mine[i]?.index ?? 0, sent)
      if (!own.ambiguous) own.pendingSession = undefined
      // An attempt with some of its keys removed can no longer be granted.
      const ours = mine.some((entry) => entry !== undefined)
      if (ours || !turn || this.#isLocked(views) || /lock delay/.test(reply.reason)) return undefined
      left = views.map(({ lock }) => lock?.index)
    }
    return undefined
  }

  /** Everything was taken: it is ours if no entry is in the way of any claim. */
  async #grantOrUndo(reply: TxnResult, session: Session): Promise<readonly Grant[] | undefined> {
    const index = modifyIndex(reply, this.#own.key)
    const turn = this.#parts.every((part) => this.#isGranted(part, toQueueView(part.keys, reply.found)))
    if (turn) return this.#granted(session, () => index, reply.sent)
    const undone = await this.#runtime.client.txn(undoAll(this.#parts, index))
    if (undone.committed && !this.#own.ambiguous) this.#own.pendingSession = undefined
    return undefined
  }

  /** @throws RangeError when a semaphore is in use with another limit */
  #isGranted({ keys, claim }: Part, view: QueueView | undefined): boolean {
    const entries = view?.entries ?? []
    const own = entries.findIndex(({ key }) => key === keys.entry(claim.attempt))
    const ahead = own < 0 ? entries : entries.slice(0, own)
    this.#own.checkLimit(ahead, claim)
    return isGranted(ahead, claim.mode)
  }

  #isLocked(views: readonly QueueView[]): boolean {
    return this.#parts.some(
      ({ mode }, i) => mode.kind === 'exclusive' && (views[i]?.lock?.session ?? '') !== '',
    )
  }

  #granted(session: Session, token: (i: number) => number, sent: number): Promise<readonly Grant[]> {
    const { ambiguous } = this.#own
    const held = ({ keys, claim, value }: Part, i: number) =>
      createHold(this.#runtime, keys, claim, session, { token: token(i), sent }, value, ambiguous)
    return this.#own.handOutAll(session, () => this.#parts.map(held))
  }

  /** First removes the entries, with a note so that no request in flight takes a lock; then the locks, if one has. */
  async #leave(session: Session): Promise<void> {
    const { client } = this.#runtime
    const entries = this.#parts.flatMap(({ keys, attempt }) => leave(keys, attempt, false))
    const notes = this.#parts.flatMap(({ keys, attempt }) => writeTombstone(keys, attempt, session.id))
    const work = async () => {
      await client.txn([...entries, ...notes])
      const { found } = await client.read(this.#parts.flatMap(({ keys }) => readQueue(keys)))
      for (const { keys, attempt } of this.#parts) {
        const { lock } = toQueueView(keys, found)
        if (lock?.attempt === attempt) await client.txn(freeLock(keys, lock.index))
      }
      return true
    }
    const over = (error: unknown) =>
      (error instanceof Refusal && error.noSession) || !toFailure(error).transient
    await this.#runtime.retryUntilDone(() => work().catch(over), session, this.#ttl / 6)
  }
}

/** What an earlier request took, perhaps one whose answer was lost. */
function findOwn({ keys, attempt, mode }: Part, view: QueueView | undefined, { id }: Session): OwnKey {
  const entry = view?.entries.find(({ key, held }) => key === keys.entry(attempt) && held)
  const own = mode.kind === 'exclusive' ? view?.lock : entry
  return own?.attempt === attempt && own.session === id ? own : undefined
}
