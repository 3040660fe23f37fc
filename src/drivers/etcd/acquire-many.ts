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
import { holdOf } from './hold.js'
import { base64 } from './keys.js'
import { inOrder } from './queue.js'
import { type Place, writtenOf } from './queue-entry.js'
import type { Desk } from './runtime.js'
import { giveUp, leave, type OneOf, takeAll } from './transactions.js'

/** Each claim takes two comparisons; a transaction may have 128 of them, unless the cluster is configured otherwise. */
export const maxBatch = 50
/** The transaction is repeated when a queue changed meanwhile, but at most this often. */
const mostTries = 20

interface Part extends OneOf {
  readonly claim: Claim
  readonly key: string
}

export class Together {
  readonly #desk: Desk
  readonly #wait: Wait
  readonly #parts: readonly Part[]
  readonly #ttl: number
  readonly #own: SessionClaim

  constructor(desk: Desk, claims: readonly Claim[], wait: Wait) {
    const { client, env } = desk
    this.#desk = desk
    this.#wait = wait
    this.#ttl = Math.max(...claims.map(({ ttl }) => ttl))
    this.#parts = claims.map((claim) => {
      const { name, attempt } = claim
      const line = desk.line(name)
      const value = base64(writtenOf(claim, client.time.now(), env.client))
      return { claim, line, attempt, key: line.place(attempt), value }
    })
    // The first claim stands for all in matters of the lease and of the end.
    const first = { ...(claims[0] as Claim), ttl: this.#ttl }
    this.#own = new SessionClaim(desk, first, wait, this.#parts[0]?.key ?? '', {
      toFailure,
      removeEntry: (session) => this.#leave(session),
    })
  }

  /** @returns a grant for each claim, or undefined: then no entry is left */
  take(): Promise<readonly Grant[] | undefined> {
    return this.#own.tryOnce(() => this.#attempt())
  }

  async #attempt(): Promise<readonly Grant[] | undefined> {
    const own = this.#own
    let seen: string | undefined
    for (let tries = 0; tries < mostTries && !this.#wait.ended; tries++) {
      const session = await own.session()
      const ask = takeAll(this.#parts, session.id, seen)
      const answer = await own.place(session, () => this.#desk.client.txn(ask))
      if (answer === undefined) continue
      const { is, sent } = answer
      const revision = is.header.revision ?? '0'
      if (is.succeeded === true) {
        const made = Number(revision)
        return this.#granted(session, () => ({ created: made, token: made }), sent)
      }
      const lines = (is.responses ?? []).map(({ response_range }) => inOrder(response_range?.kvs))
      const mine = this.#mineIn(lines, session)
      if (mine !== undefined) return this.#granted(session, (i) => mine[i] as Place, sent)
      if (!own.ambiguous) own.pendingSession = undefined
      if (!this.#freeIn(lines)) return undefined
      seen = revision
    }
    return undefined
  }

  /** The entries that an earlier request created, perhaps one whose answer was lost. Undefined unless all of them still exist. */
  #mineIn(lines: readonly (readonly Place[])[], { id }: Session): readonly Place[] | undefined {
    const places = this.#parts.flatMap(({ key }, i) => lines[i]?.find((place) => place.key === key) ?? [])
    const all = places.length === this.#parts.length && places.every(({ lease }) => lease === id)
    return all ? places : undefined
  }

  /** Is each claim compatible with all entries in its queue? */
  #freeIn(lines: readonly (readonly Place[])[]): boolean {
    return this.#parts.every(({ claim, key }, i) => {
      const line = lines[i] ?? []
      // An attempt with some of its entries removed can no longer be granted.
      if (line.some((place) => place.key === key)) return false
      this.#own.checkLimit(line, claim)
      return isGranted(line, claim.mode)
    })
  }

  #granted(
    session: Session,
    made: (i: number) => { readonly created: number; readonly token: number },
    sent: number,
  ): Promise<readonly Grant[]> {
    const { ambiguous: doubt } = this.#own
    const held = ({ line, claim }: Part, i: number) => {
      const { created, token } = made(i)
      return holdOf(this.#desk, line, claim, session, { created, token, sent, doubt })
    }
    return this.#own.handOutAll(session, () => this.#parts.map(held))
  }

  #leave(session: Session): Promise<void> {
    const { ambiguous } = this.#own
    const one = ({ line, attempt }: Part) =>
      ambiguous ? giveUp(line, attempt, session.id) : leave(line, attempt)
    const success = this.#parts.flatMap((part) => one(part).success ?? [])
    return this.#desk.clear({ success }, session, this.#ttl / 6)
  }
}
