/**
 * One claim of the strategy `row` that asks for the lock and waits.
 * ```
 *            granted ────────────────────────────────► Hold
 *   ask ──►  queued ──► parked
 *    ▲                    │
 *    └────────────────────┘ notified of its turn, due, reachable again, pause after a failure over
 *            busy (single attempt), wait over, refused ──► cancel ──► nothing
 * ```
 * Every request is the same idempotent statement: it takes the lock, takes a queue entry, proves the entry, or answers "yours". Only its
 * answer makes a holder; a notification only says when to ask.
 * Long because the life of a claim is one state machine.
 */
import { deadline } from '../../core/clock.js'
import type { Claim, Wait } from '../../core/driver.js'
import { BackendError, permitLimitError } from '../../core/errors.js'
import { Hints } from '../kit/hints.js'
import { livenessWindow, nextPollIn } from '../kit/push-schedule.js'
import type { StatementResult } from './connections.js'
import { type Failure, toFailure } from './failure.js'
import { Hold, type HoldProof } from './hold.js'
import { type AcquireReply, letters, parseAcquireReply } from './inspect.js'
import type { Runtime } from './runtime.js'

const micros = (ms: number) => Math.round(ms * 1000)
/** Waiters further back in the queue than this poll less often, as the server expects. */
const farBack = 100
/** The waiter acts on a `next` notification no sooner than after this many ms. */
const soonest = 25

export class Waiter {
  readonly #runtime: Runtime
  readonly #claim: Claim
  readonly #wait: Wait
  readonly #once: boolean
  readonly #settle: (hold: Hold | undefined) => void
  readonly #fail: (error: unknown) => void
  readonly #hints: Hints
  #asked = false
  /** True while the gate has no room for its request yet. */
  #queued = false
  #open = 0
  #failures = 0
  #polls = 0
  #ticket = 0
  #settled = false
  #listening = false
  #ambiguous = false
  #disarm: (() => void) | undefined
  /** Notifications about the hold that arrived before the answer that makes it. */
  #othersWait = false
  #revoked: 'told' | 'asked' | undefined
  /** When the next poll is due. */
  #pollAt = Number.NEGATIVE_INFINITY
  readonly #over = () => this.#giveUp()

  constructor(
    runtime: Runtime,
    claim: Claim,
    wait: Wait,
    settle: (hold: Hold | undefined) => void,
    fail: (error: unknown) => void,
  ) {
    this.#runtime = runtime
    this.#claim = claim
    this.#wait = wait
    this.#once = wait.remaining() === 0
    this.#settle = settle
    this.#fail = fail
    this.#hints = new Hints(runtime.clock, () => this.#send())
    runtime.waiters.set(claim.attempt, this)
  }

  /** Sends one request at a time: over another connection, a second could run long after the first was answered. Its answer asks again. */
  ask(): void {
    if (this.#settled || this.#queued || this.#open > 0) return
    if (this.#once) return void this.#send()
    this.#queued = true
    this.#runtime.gate.enter(() => (this.#queued ? this.#send() : undefined))
  }

  #send(): Promise<unknown> | undefined {
    this.#queued = false
    if (this.#settled) return undefined
    this.#disarm?.()
    this.#pollAt = Number.NEGATIVE_INFINITY
    const { subscriber, connections, calls } = this.#runtime
    const reachable = subscriber.channel !== null
    this.#asked = true
    this.#open++
    const asked = connections.execute(calls.acquire, this.#values())
    asked.then(
      (result) => this.#answered(result, reachable),
      (error) => {
        this.#open--
        this.#hints.queryDone()
        this.#onFailure(toFailure(error))
      },
    )
    return asked
  }

  #values(): (string | number | null)[] {
    const { subscriber, by } = this.#runtime
    const { name, attempt, mode, ttl, note = '' } = this.#claim
    const [take, of] = mode.kind === 'permits' ? [mode.take, mode.of] : [1, 1]
    const alive = subscriber.channel === null ? livenessWindow.polling : livenessWindow.reachable
    return [
      ...[name, attempt, letters[mode.kind], micros(ttl), take, of, this.#once ? 0 : 1],
      ...[micros(alive), this.#ticket, subscriber.channel, subscriber.listener, by, note],
    ]
  }

  /** Handles a notification: its turn has come, or it holds without knowing yet and somebody waits for the lock or an operator took it. */
  onNotification(what: 'turn' | 'contended' | 'taken'): void {
    if (what === 'contended') this.#othersWait = true
    else if (what === 'taken') this.#revoked ??= 'told'
    else if (!this.#once) this.#hints.notify()
  }

  /** What is ahead of it ends in `ms` ms: polls then, unless notified before. */
  expectTurnIn(ms: number): void {
    const { clock } = this.#runtime
    const wait = Math.max(ms, soonest) + 5
    if (!this.#settled && clock.now() + wait < this.#pollAt) this.#later(wait)
  }

  /** Called when the driver closes. */
  stop(): void {
    this.#giveUp(new BackendError('postgres', 'the locks were closed', { closed: true }))
  }

  #answered({ answer, sent }: StatementResult, reachable: boolean): void {
    this.#open--
    const acquired = parseAcquireReply(answer)
    if (this.#settled) return this.#onLateReply(acquired)
    this.#hints.queryDone()
    this.#failures = 0
    const { name, mode, ttl } = this.#claim
    switch (acquired.is) {
      case 'over':
        // Ended by a statement that arrived twice.
        return this.#end(undefined)
      case 'limit':
        return this.#giveUp(permitLimitError(name, acquired.limit, mode.kind === 'permits' ? mode.of : 0))
      case 'blocked':
        return this.#blocked(acquired, reachable)
      case 'granted': {
        const { token, contended } = acquired
        return this.#granted({ token, contended, validUntil: deadline(sent, ttl), reachable })
      }
    }
  }

  /** The server remembers only a few ended attempts; a request long in flight may arrive after the server has forgotten this one. */
  #onLateReply(acquired: AcquireReply): void {
    const { holds, cancel } = this.#runtime
    const { attempt, name, ttl } = this.#claim
    const stands = acquired.is === 'granted' || (acquired.is === 'blocked' && acquired.place > 0)
    if (stands && !holds.has(attempt)) void cancel(attempt, name, ttl, this.#open > 0)
  }

  #blocked({ place, left, holder, ticket }: AcquireReply & { is: 'blocked' }, reachable: boolean): void {
    this.#wait.report?.({ ...(holder && { holder }), ...(place > 0 && { position: place }) })
    if (this.#once) return this.#end(undefined)
    if (this.#wait.ended) return this.#giveUp()
    this.#ticket = ticket
    this.#listen()
    const { subscriber, random } = this.#runtime
    subscriber.open()
    // The channel came up meanwhile: the queue entry must record it.
    if (!reachable && subscriber.channel !== null) return this.ask()
    const pause = nextPollIn(place, left, reachable, reachable ? 0 : this.#polls++, random())
    this.#later(reachable && place > farBack ? (pause * place) / farBack : pause)
  }

  #listen(): void {
    if (this.#listening) return
    this.#listening = true
    this.#wait.signal.addEventListener('abort', this.#over, { once: true })
  }

  #later(ms: number): void {
    const { clock } = this.#runtime
    this.#disarm?.()
    this.#pollAt = clock.now() + Math.max(ms, 2)
    this.#disarm = clock.at(this.#pollAt, () => this.ask())
  }

  #onFailure({ transient, ambiguous, error }: Failure): void {
    if (this.#settled) return
    if (ambiguous) this.#ambiguous = true
    this.#wait.report?.({ error })
    const pause = Math.min(1_000, 25 * 2 ** Math.min(this.#failures++, 8)) * (0.5 + this.#runtime.random())
    if (!transient || this.#once || this.#wait.remaining() <= pause) return this.#giveUp(error)
    this.#listen()
    if (this.#wait.ended) this.#giveUp()
    else this.#later(pause)
  }

  #granted(proven: HoldProof): void {
    if (this.#wait.ended) return this.#giveUp()
    // If the notification is true, the grant is gone: asks once more here; after that the hold checks.
    if (this.#revoked === 'told') {
      this.#revoked = 'asked'
      return void this.#send()
    }
    const contended = proven.contended || this.#othersWait
    this.#end(new Hold(this.#runtime, this.#claim, { ...proven, contended }))
  }

  /** Leaves the queue or releases what was granted meanwhile, and has requests still in flight refused. */
  #giveUp(error?: unknown): void {
    if (this.#settled) return
    this.#leave()
    const { attempt, name, ttl } = this.#claim
    const ended = () => (error === undefined ? this.#settle(undefined) : this.#fail(error))
    const doubtful = this.#ambiguous || this.#open > 0
    if (!this.#asked) return ended()
    const gone = this.#runtime.cancel(attempt, name, ttl, doubtful)
    // A server that left a request unanswered will not answer this one sooner: cancels in the background.
    if (this.#ambiguous) ended()
    else gone.then(ended, ended)
  }

  #end(hold: Hold | undefined): void {
    this.#leave()
    this.#settle(hold)
  }

  #leave(): void {
    this.#settled = true
    this.#runtime.waiters.delete(this.#claim.attempt)
    this.#disarm?.()
    this.#hints.stop()
    if (this.#listening) this.#wait.signal.removeEventListener('abort', this.#over)
  }
}
