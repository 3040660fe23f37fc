/**
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
 * A push says how long after the server's reading of request n the lock was granted, so its claim ends no sooner than
 * `sent(n) + age + claim`. The pair must be exact: a newer `sent` with an older reading would promise too much. And the
 * server's clock must not have been set forward in between: then age would exceed the time that passed here, or, where a
 * delay hides that, the push would be late. What fails either test, or crossed a reconnect, is confirmed by asking.
 */
import { deadline } from '../../core/clock.js'
import type { Claim, Holder, Wait } from '../../core/driver.js'
import { BackendError, permitLimitError } from '../../core/errors.js'
import type { Reply } from './client.js'
import type { Desk } from './desk.js'
import type { Push } from './ear.js'
import { Hold, micros } from './hold.js'
import { holderOf } from './inspect.js'
import type { Keys } from './keys.js'
import type { Answer } from './link.js'
import { acquire } from './scripts/verbs.js'
import { troubleOf } from './trouble.js'

/** A waiter that can be reached says again that it is there about so often, in ms; this re-anchors its deadlines too. */
const safetyPoll = 5_000
/** Pauses of the first in line where nothing can be pushed, in ms. */
const pollPauses = [5, 10, 20, 50, 100]
/** How late a push may be and still be believed, in ms. */
const latestPush = 50
/** For how long a late request of an attempt given up is refused, in ms: longer than TCP keeps trying. */
const ghostFor = 180_000

interface Anchor {
  readonly sent: number
  readonly link: number
  readonly ear: number
  readonly reachable: boolean
}

export class Waiter {
  readonly #desk: Desk
  readonly #claim: Claim
  readonly #keys: Keys
  readonly #wait: Wait
  readonly #once: boolean
  readonly #settle: (hold: Hold | undefined) => void
  readonly #fail: (error: unknown) => void
  readonly #anchors = new Map<number, Anchor>()
  #asked = 0
  #began = -1
  #open = 0
  #failures = 0
  #polls = 0
  #settled = false
  #listening = false
  #doubtful = false
  #disarm: (() => void) | undefined
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
    this.#once = wait.remaining() === 0
    this.#settle = settle
    this.#fail = fail
    desk.waiters.set(claim.attempt, this)
  }

  ask(): void {
    if (this.#settled) return
    this.#disarm?.()
    const { link, server } = this.#desk
    const known = server.known(link.epoch)
    if (known === undefined) this.#send()
    else
      known.then(
        () => this.#settled || this.#send(),
        (error) => this.#failed(error),
      )
  }

  push(push: Push & { is: 'granted' }): void {
    const { clock, settings, ear, link } = this.#desk
    const anchor = this.#anchors.get(push.n)
    if (this.#settled) return
    const age = push.age / 1000
    const claim = push.claim / 1000
    if (
      anchor !== undefined &&
      ear.exact &&
      settings.replicas === 0 &&
      anchor.link === link.epoch &&
      anchor.ear === ear.epoch
    ) {
      const now = clock.now()
      const slack = now - anchor.sent - age
      const validUntil = deadline(anchor.sent, age + claim)
      const timely = slack >= -1 - age / 1000 && slack <= Math.min(latestPush, claim / 4)
      if (timely && validUntil - now > claim / 4) {
        const short = claim < this.#claim.ttl ? { claim } : {}
        this.#granted({ token: push.token, validUntil, contended: push.contended, reachable: true, ...short })
        return
      }
    }
    this.ask()
  }

  /** The driver is being closed. */
  stop(): void {
    this.#giveUp(new BackendError('redis', 'the locks were closed', { closed: true }))
  }

  #send(): void {
    const { link, ear, settings } = this.#desk
    const { attempt, mode, ttl, note = '' } = this.#claim
    const n = ++this.#asked
    this.#open++
    const take = mode.kind === 'permits' ? `${mode.take} ${mode.of}` : '1 1'
    const reachable = ear.channel !== '-'
    const alive = reachable ? 2.4 * safetyPoll : 2_000
    const rest = `${take} ${this.#once ? 0 : 1} ${n} ${micros(alive)} ${micros(Math.min(settings.claim, ttl))}`
    const leaving = (sent: number) => {
      if (this.#began < 0) this.#began = link.epoch
      this.#anchors.set(n, { sent, link: link.epoch, ear: ear.epoch, reachable: ear.channel !== '-' })
      this.#anchors.delete(n - 8)
    }
    link.ask(acquire, this.#keys, [attempt, letters[mode.kind], micros(ttl), rest, note], leaving).then(
      (answer) => this.#answered(answer, n),
      (error) => this.#failed(error),
    )
  }

  #answered(answer: Answer, n: number): void {
    this.#open--
    if (this.#settled) return
    this.#failures = 0
    const { reply } = answer
    const { server, settings, link } = this.#desk
    server.answered()
    // The attempt has ended by a message that came twice.
    if (reply === 'o') return this.#end(undefined)
    if (typeof reply === 'string' && reply.startsWith('l ')) {
      const { mode, name } = this.#claim
      return this.#giveUp(
        permitLimitError(name, Number(reply.slice(2)), mode.kind === 'permits' ? mode.of : 0),
      )
    }
    if (typeof reply === 'string') {
      // The connection broke in between: another server may have answered, which has yet to be known.
      if (answer.broken && server.known(link.epoch) !== undefined) return this.ask()
      if (answer.replicas < settings.replicas) return this.#failed(this.#desk.tooFew(answer.replicas))
      const [token, contended] = reply.split(' ')
      const reachable = this.#anchors.get(n)?.reachable === true
      const validUntil = deadline(answer.sent, this.#claim.ttl)
      return this.#granted({ token: Number(token), validUntil, contended: contended === '1', reachable })
    }
    this.#blocked(reply as readonly Reply[], n)
  }

  #blocked(reply: readonly Reply[], n: number): void {
    const [place, left, canPush, barred, ...first] = reply
    const holder: Holder | undefined = first.length > 0 ? holderOf(first) : undefined
    this.#wait.blocked?.({ ...(holder && { holder }), ...(Number(place) > 0 && { position: Number(place) }) })
    if (this.#once) return this.#end(undefined)
    if (this.#wait.over) return this.#giveUp()
    if (!this.#listening) {
      this.#listening = true
      this.#wait.signal.addEventListener('abort', this.#over, { once: true })
    }
    this.#desk.ear.open()
    const told = (canPush === 1 && this.#anchors.get(n)?.reachable === true) || barred === 1
    this.#park(Number(place), Number(left) / 1000, told)
  }

  /** Until a push comes, or it is time to look again: the first in line when the hold runs out, the others in case it is gone. */
  #park(place: number, left: number, told: boolean): void {
    const { random } = this.#desk
    const rank = Math.max(0, place - 1)
    const jitter = 0.8 + random() * 0.4
    if (told) return this.#later(Math.min(left + 5 + Math.min(rank, 50) * 100, safetyPoll * jitter))
    const pause = pollPauses[Math.min(this.#polls++, pollPauses.length - 1)] ?? 100
    this.#later((rank === 0 ? pause : Math.min(300, 50 * (rank + 1))) * jitter)
  }

  #later(ms: number): void {
    const { clock } = this.#desk
    this.#disarm?.()
    this.#disarm = clock.at(clock.now() + Math.max(ms, 2), () => this.ask())
  }

  #failed(error: unknown): void {
    this.#open--
    if (this.#settled) return
    const { link, random } = this.#desk
    const trouble = troubleOf(error, link.connection.ended)
    if (trouble.unknown) this.#doubtful = true
    const pause = Math.min(1_000, 25 * 2 ** Math.min(this.#failures++, 8)) * (0.5 + random())
    if (!trouble.passing || this.#once || this.#wait.remaining() <= pause) return this.#giveUp(trouble.error)
    this.#later(pause)
  }

  #granted(proven: ConstructorParameters<typeof Hold>[3]): void {
    if (this.#wait.over) return this.#giveUp()
    this.#end(new Hold(this.#desk, this.#claim, this.#keys, proven))
  }

  /** Leaves the line, or gives back what came meanwhile, and refuses what may still be on its way. */
  #giveUp(error?: unknown): void {
    const { link, waiters } = this.#desk
    if (this.#settled) return
    this.#leave()
    waiters.delete(this.#claim.attempt)
    const ended = () => (error === undefined ? this.#settle(undefined) : this.#fail(error))
    if (this.#asked === 0) return ended()
    const doubtful = this.#doubtful || this.#open > 0 || this.#began !== link.epoch
    const cancelled = this.#desk.cancel(
      this.#claim.attempt,
      this.#keys,
      this.#claim.ttl,
      doubtful ? ghostFor : 0,
    )
    cancelled.then(ended, ended)
  }

  #end(hold: Hold | undefined): void {
    this.#leave()
    this.#desk.waiters.delete(this.#claim.attempt)
    this.#settle(hold)
  }

  #leave(): void {
    this.#settled = true
    this.#disarm?.()
    if (this.#listening) this.#wait.signal.removeEventListener('abort', this.#over)
  }
}

const letters = { exclusive: 'x', shared: 's', permits: 'p' } as const
