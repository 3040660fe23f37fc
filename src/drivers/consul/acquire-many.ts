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
import type { Said } from './client.js'
import { Refusal, toFailure } from './failure.js'
import { holdOf, indexIn } from './hold.js'
import { type Place, type View, viewOf, writtenOf } from './queue-entry.js'
import type { Desk } from './runtime.js'
import { claimAll, leave, letGo, look, note, type OneOf, undoAll } from './transactions.js'

/** Each claim takes five operations, and a transaction may have 64. */
export const maxBatch = 12
/** The transaction is repeated when it finds locks left without an owner, but at most this often. */
const mostTries = 5

interface Part extends OneOf {
  readonly claim: Claim
}

/** The key that one part has in the store. */
type Had = Place | undefined

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
      const { name, attempt, mode } = claim
      return {
        claim,
        line: desk.line(name),
        attempt,
        mode,
        value: writtenOf(claim, client.time.now(), env.client, true),
      }
    })
    // The first claim stands for all in matters of the session and of the end.
    const first = claims[0] as Claim
    const key = desk.line(first.name).place(first.attempt)
    this.#own = new SessionClaim(desk, { ...first, ttl: this.#ttl }, wait, key, {
      toFailure,
      removeEntry: (session) => this.#leave(session),
    })
  }

  /** @returns a grant for each claim, or undefined: then no key is left */
  take(): Promise<readonly Grant[] | undefined> {
    return this.#own.tryOnce(() => this.#attempt())
  }

  async #attempt(): Promise<readonly Grant[] | undefined> {
    const own = this.#own
    let left: readonly (number | undefined)[] = []
    for (let tries = 0; tries < mostTries && !this.#wait.ended; tries++) {
      const session = await own.session()
      const said = await own.place(session, () =>
        this.#desk.client.txn(claimAll(this.#parts, session.id, left)),
      )
      if (said === undefined) continue
      if (said.done) return await this.#inTurn(said, session)
      const { found, sent } = await this.#desk.client.read(this.#parts.flatMap(({ line }) => look(line)))
      const views = this.#parts.map(({ line }) => viewOf(line, found))
      const mine = this.#parts.map((part, i) => had(part, views[i], session))
      const turn = this.#parts.every((part, i) => this.#isTurn(part, views[i]))
      if (turn && mine.every((place) => place !== undefined))
        return await this.#granted(session, (i) => mine[i]?.index ?? 0, sent)
      if (!own.ambiguous) own.pendingSession = undefined
      // An attempt with some of its keys removed can no longer be granted.
      const ours = mine.some((place) => place !== undefined)
      if (ours || !turn || this.#locked(views) || /lock delay/.test(said.why)) return undefined
      left = views.map(({ lock }) => lock?.index)
    }
    return undefined
  }

  /** Everything was taken: it is ours if no entry is in the way of any claim. */
  async #inTurn(said: Said, session: Session): Promise<readonly Grant[] | undefined> {
    const index = indexIn(said, this.#own.key)
    const turn = this.#parts.every((part) => this.#isTurn(part, viewOf(part.line, said.found)))
    if (turn) return this.#granted(session, () => index, said.sent)
    const undone = await this.#desk.client.txn(undoAll(this.#parts, index))
    if (undone.done && !this.#own.ambiguous) this.#own.pendingSession = undefined
    return undefined
  }

  /** @throws RangeError when a semaphore is in use with another limit */
  #isTurn({ line, claim }: Part, view: View | undefined): boolean {
    const places = view?.line ?? []
    const own = places.findIndex(({ key }) => key === line.place(claim.attempt))
    const ahead = own < 0 ? places : places.slice(0, own)
    this.#own.checkLimit(ahead, claim)
    return isGranted(ahead, claim.mode)
  }

  #locked(views: readonly View[]): boolean {
    return this.#parts.some(
      ({ mode }, i) => mode.kind === 'exclusive' && (views[i]?.lock?.session ?? '') !== '',
    )
  }

  #granted(session: Session, token: (i: number) => number, sent: number): Promise<readonly Grant[]> {
    const { ambiguous } = this.#own
    const held = ({ line, claim, value }: Part, i: number) =>
      holdOf(this.#desk, line, claim, session, { token: token(i), sent }, value, ambiguous)
    return this.#own.handOutAll(session, () => this.#parts.map(held))
  }

  /** First removes the entries, with a note so that no request in flight takes a lock; then the locks, if one has. */
  async #leave(session: Session): Promise<void> {
    const { client } = this.#desk
    const places = this.#parts.flatMap(({ line, attempt }) => leave(line, attempt, false))
    const notes = this.#parts.flatMap(({ line, attempt }) => note(line, attempt, session.id))
    const work = async () => {
      await client.txn([...places, ...notes])
      const { found } = await client.read(this.#parts.flatMap(({ line }) => look(line)))
      for (const { line, attempt } of this.#parts) {
        const { lock } = viewOf(line, found)
        if (lock?.attempt === attempt) await client.txn(letGo(line, lock.index))
      }
      return true
    }
    const over = (error: unknown) =>
      (error instanceof Refusal && error.noSession) || !toFailure(error).transient
    await this.#desk.retryUntilDone(() => work().catch(over), session, this.#ttl / 6)
  }
}

/** What an earlier request took, perhaps one whose answer was lost. */
function had({ line, attempt, mode }: Part, view: View | undefined, { id }: Session): Had {
  const place = view?.line.find(({ key, held }) => key === line.place(attempt) && held)
  const own = mode.kind === 'exclusive' ? view?.lock : place
  return own?.attempt === attempt && own.session === id ? own : undefined
}
