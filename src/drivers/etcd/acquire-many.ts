/**
 * Several claims in one transaction, which enters all their queues if these are empty. Where the existing entries are compatible with the claims,
 * as readers are, a second transaction enters behind them, if no entry was added or changed meanwhile.
 *
 * One lease keeps all entries. They have one revision, which is the token of each. They are granted or removed in one step.
 */
import type { Claim, Grant, Wait } from '../../core/driver.js'
import { SessionClaim } from '../kit/sessions/claim.js'
import { isGranted } from '../kit/sessions/order.js'
import type { Session } from '../kit/sessions/session.js'
import { toFailure } from './failure.js'
import { createHold } from './hold.js'
import { base64 } from './keys.js'
import { inOrder } from './queue.js'
import { encodeEntry, type QueueEntry } from './queue-entry.js'
import type { Runtime } from './runtime.js'
import { type BatchPart, giveUp, leave, takeAll } from './transactions.js'

/** Each claim takes two comparisons; a transaction may have 128 of them, unless the cluster is configured otherwise. */
export const maxBatch = 50
/** The transaction is repeated when a queue changed meanwhile, but at most this often. */
const maxAttempts = 20

interface Part extends BatchPart {
  readonly claim: Claim
  readonly key: string
}

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
      const { name, attempt } = claim
      const keys = runtime.lockKeys(name)
      const value = base64(encodeEntry(claim, client.time.now(), env.client))
      return { claim, keys, attempt, key: keys.entry(attempt), value }
    })
    // The first claim represents all for the lease and the deadline.
    const first = { ...(claims[0] as Claim), ttl: this.#ttl }
    this.#own = new SessionClaim(runtime, first, wait, this.#parts[0]?.key ?? '', {
      toFailure,
      removeEntry: (session) => this.#leave(session),
    })
  }

  /** @returns a grant for each claim, or undefined: then no entry is left */
  tryOnce(): Promise<readonly Grant[] | undefined> {
    return this.#own.tryOnce(() => this.#attempt())
  }

  async #attempt(): Promise<readonly Grant[] | undefined> {
    const own = this.#own
    let seen: string | undefined
    for (let tries = 0; tries < maxAttempts && !this.#wait.ended; tries++) {
      const session = await own.session()
      const ask = takeAll(this.#parts, session.id, seen)
      const answer = await own.createEntry(session, () => this.#runtime.client.txn(ask))
      if (answer === undefined) continue
      const { is, sent } = answer
      const revision = is.header.revision ?? '0'
      if (is.succeeded === true) {
        const made = Number(revision)
        return this.#granted(session, () => ({ created: made, token: made }), sent)
      }
      const queues = (is.responses ?? []).map(({ response_range }) => inOrder(response_range?.kvs))
      const mine = this.#findOwn(queues, session)
      if (mine !== undefined) return this.#granted(session, (i) => mine[i] as QueueEntry, sent)
      if (!own.ambiguous) own.pendingSession = undefined
      if (!this.#areGranted(queues)) return undefined
      seen = revision
    }
    return undefined
  }

  /** The entries that an earlier request created, perhaps one whose answer was lost. Undefined unless all of them still exist. */
  #findOwn(queues: readonly (readonly QueueEntry[])[], { id }: Session): readonly QueueEntry[] | undefined {
    const entries = this.#parts.flatMap(({ key }, i) => queues[i]?.find((entry) => entry.key === key) ?? [])
    const all = entries.length === this.#parts.length && entries.every(({ lease }) => lease === id)
    return all ? entries : undefined
  }

  /** Is each claim compatible with all entries in its queue? */
  #areGranted(queues: readonly (readonly QueueEntry[])[]): boolean {
    return this.#parts.every(({ claim, key }, i) => {
      const keys = queues[i] ?? []
      // An attempt with some of its entries removed can no longer be granted.
      if (keys.some((entry) => entry.key === key)) return false
      this.#own.checkLimit(keys, claim)
      return isGranted(keys, claim.mode)
    })
  }

  #granted(
    session: Session,
    made: (i: number) => { readonly created: number; readonly token: number },
    sent: number,
  ): Promise<readonly Grant[]> {
    const { ambiguous } = this.#own
    const held = ({ keys, claim }: Part, i: number) => {
      const { created, token } = made(i)
      return createHold(this.#runtime, keys, claim, session, { created, token, sent, ambiguous })
    }
    return this.#own.handOutAll(session, () => this.#parts.map(held))
  }

  #leave(session: Session): Promise<void> {
    const { ambiguous } = this.#own
    const one = ({ keys, attempt }: Part) =>
      ambiguous ? giveUp(keys, attempt, session.id) : leave(keys, attempt)
    const success = this.#parts.flatMap((part) => one(part).success ?? [])
    return this.#runtime.clear({ success }, session, this.#ttl / 6)
  }
}
