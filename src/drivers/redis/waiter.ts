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
 * Every ask is the same idempotent script: it takes the lock, or a place in line, or proves the place, or answers "yours".
 *
 */
import { deadline } from '../../core/clock.js'
import type { Claim, Wait } from '../../core/driver.js'
import { BackendError, permitLimitError } from '../../core/errors.js'
import { nextLook, provenUntil } from '../kit/push.js'
import { type Acquired, Ask, type Asking, acquiredOf, argsOf } from './ask.js'
import type { Reply } from './client.js'
import type { Desk } from './desk.js'
import type { Push } from './ear.js'
import { Hold, type Proven } from './hold.js'
import type { Keys } from './keys.js'
import type { Flight } from './link.js'
import { acquire } from './scripts/acquire.js'
import { type Trouble, troubleOf } from './trouble.js'

/** For how long a late request of an attempt given up is refused, in ms: longer than TCP keeps trying. */
export const ghostFor = 180_000

export class Waiter implements Asking {
  readonly #desk: Desk
  readonly #claim: Claim
  readonly #keys: Keys
  readonly #wait: Wait
  readonly #once: boolean
  readonly #settle: (hold: Hold | undefined) => void
  readonly #fail: (error: unknown) => void
  /** The last few, oldest first. */
  readonly #asks: Ask[] = []
  #asked = 0
  #began = -1
  #open = 0
  #failures = 0
  #polls = 0
  #settled = false
  #listening = false
  #learning = false
  #doubtful = false
  /** Has the server said anything, or was it told what keeps it from that? */
  #heard = false
  #unwarn: (() => void) | undefined
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
    keys: Keys,
    wait: Wait,
    settle: (hold: Hold | undefined) => void,
    fail: (error: unknown) => void,
  ) {
    this.#desk = desk
    this.#claim = claim
    this.#keys = keys
    this.#wait = wait
    const left = wait.remaining()
    this.#once = left === 0
    if (left > 0 && left < desk.settings.commandTimeout) this.#warn(left)
    this.#settle = settle
    this.#fail = fail
    desk.waiters.set(claim.attempt, this)
  }

  ask(): void {
    if (this.#settled || this.#learning) return
    this.#disarm?.()
    this.#lookAt = Number.NEGATIVE_INFINITY
    const { link, server } = this.#desk
    const known = server.known(link.epoch)
    if (known === undefined) return this.#send()
    this.#learning = true
    const learnt = () => {
      this.#learning = false
    }
    // Once more from the start: while it was asked, the connection may have broken again.
    known.finally(learnt).then(
      () => this.ask(),
      (error) => this.#trouble(troubleOf(error, link.connection.ended)),
    )
  }

  /** A wait shorter than a request may take would end before anybody could say why. */
  #warn(left: number): void {
    const { clock } = this.#desk
    const error = new BackendError('redis', 'the server has not answered yet')
    const warn = () => this.#heard || this.#wait.blocked?.({ trouble: error })
    this.#unwarn = clock.at(clock.now() + left - Math.min(left / 4, 50), warn)
  }

  push(push: Push & { is: 'granted' }): void {
    if (this.#settled) return
    const { clock, settings, ear, link } = this.#desk
    const ask = this.#asks.find(({ n }) => n === push.n)
    // After a reconnect the other end may be another server, with another clock and older data; and replicas must be asked.
    const usable = ask?.link === link.epoch && ask.ear === ear.epoch && ear.exact && settings.replicas === 0
    const claim = push.claim / 1000
    const validUntil =
      usable && ask.sent !== undefined
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
    this.#giveUp(new BackendError('redis', 'the locks were closed', { closed: true }))
  }

  leaving(ask: Ask, { sent, epoch }: Flight): void {
    const { ear } = this.#desk
    if (this.#began < 0) this.#began = epoch
    ask.sent = sent
    ask.link = epoch
    ask.ear = ear.epoch
    ask.reachable = ear.up
  }

  failed(error: unknown): void {
    this.#open--
    this.#trouble(troubleOf(error, this.#desk.link.connection.ended))
  }

  answered(reply: Reply, { sent, broken, replicas }: Flight, { reachable }: Ask): void {
    this.#open--
    if (this.#settled) return
    const { server, settings } = this.#desk
    const { name, mode, ttl } = this.#claim
    const acquired = acquiredOf(reply)
    this.#failures = 0
    server.answered()
    switch (acquired.is) {
      case 'over':
        // By a message that came twice.
        return this.#end(undefined)
      case 'limit':
        return this.#giveUp(permitLimitError(name, acquired.limit, mode.kind === 'permits' ? mode.of : 0))
      case 'blocked':
        return this.#blocked(acquired, reachable)
      case 'granted':
        // The connection broke in between: another server may have answered, asked as if it were the one before, even if it is known by now.
        if (broken) return this.ask()
        if (replicas < settings.replicas) {
          return this.#trouble({ passing: true, unknown: false, error: this.#desk.tooFew(replicas) })
        }
        return this.#granted({ ...acquired, validUntil: deadline(sent, ttl), reachable })
    }
  }

  #send(): void {
    const { link, ear, settings } = this.#desk
    const ask = new Ask(this, ++this.#asked)
    if (this.#asks.push(ask) > 8) this.#asks.shift()
    this.#open++
    const args = argsOf(this.#claim, ask.n, this.#once, ear.up, settings.claim)
    link.ask(acquire, this.#keys, args, ask)
  }

  #blocked({ place, left, canPush, barred, holder }: Acquired & { is: 'blocked' }, reachable: boolean): void {
    this.#heard = true
    this.#wait.blocked?.({ ...(holder && { holder }), ...(place > 0 && { position: place }) })
    const { ear, link, random } = this.#desk
    // Asked more than once, because the channel came up or the connection broke: another answer must not be a grant that nobody knows of.
    if (this.#once && this.#open === 0 && this.#began === link.epoch) return this.#end(undefined)
    if (this.#once || this.#wait.over) return this.#giveUp()
    this.#listen()
    ear.open()
    const told = (canPush && reachable) || barred
    this.#later(nextLook(place, left, told, told ? 0 : this.#polls++, random()))
  }

  /** From now on the end of the wait is heard at once. */
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
    this.#heard = true
    this.#wait.blocked?.({ trouble: error })
    const pause = Math.min(1_000, 25 * 2 ** Math.min(this.#failures++, 8)) * (0.5 + this.#desk.random())
    if (!passing || this.#once || this.#wait.remaining() <= pause) return this.#giveUp(error)
    this.#listen()
    this.#later(pause)
  }

  #granted(proven: Proven): void {
    if (this.#wait.over) return this.#giveUp()
    // What it was granted is gone. It asks for another.
    const taken = this.#taken
    this.#taken = false
    if (taken) return this.ask()
    const contended = proven.contended || this.#othersWait
    this.#end(new Hold(this.#desk, this.#claim, this.#keys, { ...proven, contended }))
  }

  /** Leaves the line, or gives back what came meanwhile, and refuses what may still be on its way. */
  #giveUp(error?: unknown): void {
    if (this.#settled) return
    this.#leave()
    const { attempt, ttl } = this.#claim
    const ended = () => (error === undefined ? this.#settle(undefined) : this.#fail(error))
    const doubtful = this.#doubtful || this.#open > 0 || this.#began !== this.#desk.link.epoch
    const gone = this.#asked === 0 || this.#desk.cancel(attempt, this.#keys, ttl, doubtful ? ghostFor : 0)
    // A server that left a request unanswered will not answer this one sooner: it is told in the background.
    if (gone === true || this.#doubtful) ended()
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
    this.#unwarn?.()
    if (this.#listening) this.#wait.signal.removeEventListener('abort', this.#over)
  }
}
