/**
 * Long because the life of a claim is one state machine, told below.
 *
 * One claim that is asked for and waits.
 *
 * ```
 *            granted ─────────────────────────────────────────────► Hold
 *   ask ──►  queued ──► parked ──► pushed: the deadline is proven ─► Hold
 *    ▲                    │    └─► pushed, not proven ──┐
 *    └── due, reachable again, failed a while ago ◄─────┘
 *            busy (single attempt), wait over, refused ──► cancel ──► nothing
 * ```
 * Every ask is the same idempotent statement: it takes the lock, or a place in line, or proves the place, or answers "yours".
 */
import { deadline } from '../../core/clock.js'
import type { Claim, Wait } from '../../core/driver.js'
import { BackendError, permitLimitError } from '../../core/errors.js'
import { aliveFor, nextLook, provenUntil } from '../kit/push.js'
import type { Desk } from './desk.js'
import type { Push } from './ear.js'
import { Hold, type Proven } from './hold.js'
import { type Acquired, acquiredOf, letters } from './inspect.js'
import type { Told } from './lane.js'
import { type Trouble, troubleOf } from './trouble.js'

/** One request: when it left, and whether it said where to push to. */
interface Ask {
  readonly n: number
  readonly ear: number
  readonly reachable: boolean
  sent: number | undefined
}

const micros = (ms: number) => Math.round(ms * 1000)

export class Waiter {
  readonly #desk: Desk
  readonly #claim: Claim
  readonly #wait: Wait
  readonly #once: boolean
  readonly #settle: (hold: Hold | undefined) => void
  readonly #fail: (error: unknown) => void
  /** The last few, oldest first. */
  readonly #asks: Ask[] = []
  #asked = 0
  #open = 0
  #failures = 0
  #polls = 0
  #ticket = 0
  #settled = false
  #listening = false
  #doubtful = false
  #disarm: (() => void) | undefined
  /** What was pushed about the hold before the answer that tells of it. */
  #othersWait = false
  #taken = false
  /** When it asks again by itself. */
  #lookAt = Number.NEGATIVE_INFINITY
  readonly #over = () => this.#giveUp()

  constructor(
    desk: Desk,
    claim: Claim,
    wait: Wait,
    settle: (hold: Hold | undefined) => void,
    fail: (error: unknown) => void,
  ) {
    this.#desk = desk
    this.#claim = claim
    this.#wait = wait
    this.#once = wait.remaining() === 0
    this.#settle = settle
    this.#fail = fail
    desk.waiters.set(claim.attempt, this)
  }

  ask(): void {
    if (this.#settled) return
    this.#disarm?.()
    this.#lookAt = Number.NEGATIVE_INFINITY
    const { ear, lane, calls } = this.#desk
    const ask: Ask = { n: ++this.#asked, ear: ear.epoch, reachable: ear.channel !== null, sent: undefined }
    if (this.#asks.push(ask) > 8) this.#asks.shift()
    this.#open++
    const asked = lane.ask(calls.acquire, this.#values(ask))
    asked.then(
      (told) => this.#answered(told, ask),
      (error) => {
        this.#open--
        this.#trouble(troubleOf(error))
      },
    )
  }

  #values({ n }: Ask): (string | number | null)[] {
    const { ear, settings, by } = this.#desk
    const { name, attempt, mode, ttl, note = '' } = this.#claim
    const [take, of] = mode.kind === 'permits' ? [mode.take, mode.of] : [1, 1]
    const alive = ear.channel === null ? aliveFor.polling : aliveFor.reachable
    return [
      ...[name, attempt, letters[mode.kind], micros(ttl), take, of, this.#once ? 0 : 1, n],
      ...[micros(alive), micros(Math.min(settings.claim, ttl)), this.#ticket, ear.channel, by, note],
    ]
  }

  push(push: Push & { is: 'granted' }): void {
    if (this.#settled) return
    const { clock, ear } = this.#desk
    const ask = this.#asks.find(({ n }) => n === push.n)
    const claim = push.claim / 1000
    const validUntil =
      ask?.sent !== undefined && ask.ear === ear.epoch
        ? provenUntil(ask.sent, push.age / 1000, claim, clock.now())
        : undefined
    if (validUntil === undefined) return this.ask()
    const { token, contended } = push
    const short = claim < this.#claim.ttl ? { claim } : {}
    this.#granted({ token, validUntil, contended, reachable: true, ...short })
  }

  /** It holds already and does not know: somebody waits for that, or an operator took it. */
  hear(what: 'contended' | 'taken'): void {
    if (what === 'contended') this.#othersWait = true
    else this.#taken = true
  }

  /** The one above it must have said a word within `ms`, or it has died. */
  foretold(ms: number): void {
    const { clock } = this.#desk
    if (!this.#settled && clock.now() + ms + 5 < this.#lookAt) this.#later(ms + 5)
  }

  /** The driver is being closed. */
  stop(): void {
    this.#giveUp(new BackendError('postgres', 'the locks were closed', { closed: true }))
  }

  #answered({ answer, sent }: Told, ask: Ask): void {
    this.#open--
    const acquired = acquiredOf(answer)
    if (this.#settled) return this.#late(acquired)
    ask.sent = sent
    this.#failures = 0
    const { name, mode, ttl } = this.#claim
    switch (acquired.is) {
      case 'over':
        // By a statement that came twice.
        return this.#end(undefined)
      case 'limit':
        return this.#giveUp(permitLimitError(name, acquired.limit, mode.kind === 'permits' ? mode.of : 0))
      case 'blocked':
        return this.#blocked(acquired, ask.reachable)
      case 'granted': {
        const { token, contended } = acquired
        return this.#granted({ token, contended, validUntil: deadline(sent, ttl), reachable: ask.reachable })
      }
    }
  }

  /** The server remembers a few attempts that have ended; a request that was under way for long may come when it has forgotten this one. */
  #late(acquired: Acquired): void {
    const { holds, cancel } = this.#desk
    const { attempt, name, ttl } = this.#claim
    const stands = acquired.is === 'granted' || (acquired.is === 'blocked' && acquired.place > 0)
    if (stands && !holds.has(attempt)) void cancel(attempt, name, ttl, this.#open > 0)
  }

  #blocked({ place, left, holder, ticket }: Acquired & { is: 'blocked' }, reachable: boolean): void {
    this.#wait.blocked?.({ ...(holder && { holder }), ...(place > 0 && { position: place }) })
    // Asked once more because the channel came up meanwhile: the second answer must not be a grant that nobody knows of.
    if (this.#once && this.#open === 0) return this.#end(undefined)
    if (this.#once || this.#wait.over) return this.#giveUp()
    this.#ticket = ticket
    this.#listen()
    const { ear, random } = this.#desk
    ear.open()
    // The channel came up meanwhile: who waits has to say so.
    if (!reachable && ear.channel !== null) return this.ask()
    this.#later(nextLook(place, left, reachable, reachable ? 0 : this.#polls++, random()))
  }

  #listen(): void {
    if (this.#listening) return
    this.#listening = true
    this.#wait.signal.addEventListener('abort', this.#over, { once: true })
  }

  #later(ms: number): void {
    const { clock } = this.#desk
    this.#disarm?.()
    this.#lookAt = clock.now() + Math.max(ms, 2)
    this.#disarm = clock.at(this.#lookAt, () => this.ask())
  }

  #trouble({ passing, unknown, error }: Trouble): void {
    if (this.#settled) return
    if (unknown) this.#doubtful = true
    this.#wait.blocked?.({ trouble: error })
    const pause = Math.min(1_000, 25 * 2 ** Math.min(this.#failures++, 8)) * (0.5 + this.#desk.random())
    if (!passing || this.#once || this.#wait.remaining() <= pause) return this.#giveUp(error)
    this.#listen()
    if (this.#wait.over) this.#giveUp()
    else this.#later(pause)
  }

  #granted(proven: Proven): void {
    if (this.#wait.over) return this.#giveUp()
    // What it was granted is gone. It asks for another.
    const taken = this.#taken
    this.#taken = false
    if (taken) return this.ask()
    const contended = proven.contended || this.#othersWait
    this.#end(new Hold(this.#desk, this.#claim, { ...proven, contended }))
  }

  /** Leaves the line, or gives back what came meanwhile, and refuses what may still be on its way. */
  #giveUp(error?: unknown): void {
    if (this.#settled) return
    this.#leave()
    const { attempt, name, ttl } = this.#claim
    const ended = () => (error === undefined ? this.#settle(undefined) : this.#fail(error))
    const doubtful = this.#doubtful || this.#open > 0
    if (this.#asked === 0) return ended()
    const gone = this.#desk.cancel(attempt, name, ttl, doubtful)
    // A server that left a request unanswered will not answer this one sooner: it is told in the background.
    if (this.#doubtful) ended()
    else gone.then(ended, ended)
  }

  #end(hold: Hold | undefined): void {
    this.#leave()
    this.#settle(hold)
  }

  #leave(): void {
    this.#settled = true
    this.#desk.waiters.delete(this.#claim.attempt)
    this.#disarm?.()
    if (this.#listening) this.#wait.signal.removeEventListener('abort', this.#over)
  }
}
