/**
 * One claim: its requests, its wait, its end.
 * ```
 *            granted ────────────────────────────────► Hold
 *   ask ──►  queued ──► parked
 *    ▲                    │
 *    └────────────────────┘ notified of its turn, due, subscribed again, retry after a failure
 *            busy (single attempt), wait over, refused ──► cancel ──► nothing
 * ```
 * Every `ask` runs the same idempotent script: it takes the lock, enqueues the claim, proves its entry, or replies "yours". Only
 * this reply makes a holder; a notification only says when to ask.
 * Long because the life of a claim is one state machine, drawn above.
 */
import { mayBeCached } from '../../core/caching.js'
import { deadline } from '../../core/clock.js'
import type { Claim, Wait } from '../../core/driver.js'
import { BackendError, permitLimitError } from '../../core/errors.js'
import { TimeLimit } from '../../core/time-limit.js'
import { Hints } from '../kit/hints.js'
import { noAnswer } from '../kit/no-answer.js'
import { nextPollIn } from '../kit/push-schedule.js'
import { type AcquireReply, parseAcquireReply, toArguments, tombstoneTtl } from './acquire-codec.js'
import type { Reply } from './client.js'
import { type Failure, toFailure } from './failure.js'
import { Hold, type HoldProof } from './hold.js'
import type { Keys } from './keys.js'
import { continueSteps } from './multi-step-reply.js'
import type { Batch, Callbacks } from './pipeline.js'
import type { Runtime } from './runtime.js'
import { acquire } from './scripts/acquire.js'

/** How often in a row the driver identifies a changed server again without a pause. */
const maxForeignReplies = 5

/** @param until ms since 1970 */
function quarantined(until: number): BackendError {
  const parts = [3_600, 60, 1].map((unit) => Math.floor(until / 1_000 / unit) % (unit === 3_600 ? 24 : 60))
  const at = parts.map((part) => String(part).padStart(2, '0')).join(':')
  const why =
    'which may have forgotten locks and grants none; "holdfast doctor" tells how to mark a new server'
  const message = `quarantine until ${at} UTC by the clock of the server, ${why}`
  return new BackendError('redis', message, { quarantined: true })
}

export class Waiter implements Callbacks {
  readonly #runtime: Runtime
  readonly #claim: Claim
  readonly #keys: Keys
  readonly #wait: Wait
  readonly #once: boolean
  /** As short as the wait of a single attempt in the queue: see `core/caching.ts`. */
  readonly #short: boolean
  readonly #settle: (hold: Hold | undefined) => void
  readonly #fail: (error: unknown) => void
  /** Made at the first notification. */
  #hints: Hints | undefined
  #asked = false
  #began = -1
  #open = 0
  #failures = 0
  /** How often in a row the server was not the one that had been met. */
  #foreignReplies = 0
  #polls = 0
  #settled = false
  #learning = false
  #ambiguous = false
  /** Has the server replied, or has the wait been informed why it does not? */
  #hasReply = false
  #silence: TimeLimit | undefined
  #disarm: (() => void) | undefined
  /** Did the newest request carry a channel on which this process can be notified? */
  #reachable = false
  /** Notifications about the hold that arrived before the reply that grants it. */
  #othersWait = false
  #revoked: 'told' | 'asked' | undefined
  /** Clock reading of the next request made without a notification. */
  #pollAt = Number.NEGATIVE_INFINITY
  #over: (() => void) | undefined

  constructor(
    runtime: Runtime,
    claim: Claim,
    keys: Keys,
    wait: Wait,
    settle: (hold: Hold | undefined) => void,
    fail: (error: unknown) => void,
  ) {
    this.#runtime = runtime
    this.#claim = claim
    this.#keys = keys
    this.#wait = wait
    const left = wait.remaining()
    this.#once = left === 0
    this.#short = left <= 250
    const timeout = this.#once ? claim.ttl : left
    if (timeout <= runtime.settings.commandTimeout) this.#warn(timeout)
    this.#settle = settle
    this.#fail = fail
    runtime.waiters.set(claim.attempt, this)
  }

  /** @param from the queue score at which the server is to begin */
  ask(from?: string): void {
    if (this.#settled || this.#learning) return
    this.#disarm?.()
    this.#pollAt = Number.NEGATIVE_INFINITY
    const { pipeline, server } = this.#runtime
    const known = server.known(pipeline.epoch)
    if (known === undefined) return this.#send(from)
    this.#learning = true
    const learnt = () => {
      this.#learning = false
    }
    // Start over: the connection may have broken again meanwhile.
    known.finally(learnt).then(
      () => this.ask(),
      (error) => this.#reportError(toFailure(error, pipeline.connection)),
    )
  }

  /** A wait shorter than a request's time-out would otherwise end before its cause is reported. */
  #warn(left: number): void {
    const { clock, pipeline } = this.#runtime
    const warn = () => {
      const { outage } = pipeline.connection
      const message = outage === undefined ? 'the server has not answered yet' : noAnswer(outage.message)
      const error = new BackendError('redis', message, { cause: outage, unanswered: true })
      if (!this.#hasReply) this.#wait.report?.({ error })
    }
    this.#silence = new TimeLimit(clock, left - Math.min(left / 4, 50), warn).armSoon()
  }

  /** A notification: it is this claim's turn; or the claim holds without knowing yet, and others wait or an operator force-released it. */
  onNotification(what: 'turn' | 'contended' | 'taken'): void {
    if (what === 'contended') this.#othersWait = true
    else if (what === 'taken') this.#revoked ??= 'told'
    else if (!this.#once) {
      this.#hints ??= new Hints(this.#runtime.clock, () => this.ask())
      this.#hints.notify()
    }
  }

  /** The hold or entry ahead ends in `ms` ms, unless a notification comes first. */
  expectTurnIn(ms: number): void {
    const { clock } = this.#runtime
    const wait = Math.max(ms, 25) + 5
    if (!this.#settled && clock.now() + wait < this.#pollAt) this.#later(wait)
  }

  /** The driver is closing. */
  stop(): void {
    this.#giveUp(new BackendError('redis', 'the locks were closed', { closed: true }))
  }

  leaving({ epoch }: Batch): void {
    if (this.#began < 0) this.#began = epoch
    this.#reachable = this.#runtime.subscriber.up
  }

  failed(error: unknown): void {
    this.#open--
    this.#hints?.queryDone()
    this.#reportError(toFailure(error, this.#runtime.pipeline.connection))
  }

  answered(reply: Reply, { sent, broken, replicas }: Batch): void {
    this.#open--
    if (this.#settled) return
    this.#hints?.queryDone()
    const acquired = parseAcquireReply(reply)
    this.#failures = 0
    switch (acquired.is) {
      case 'over':
        // By a request that arrived twice.
        return this.#end(undefined)
      case 'limit':
        return this.#giveUp(this.#otherLimit(acquired.limit))
      case 'blocked':
        if (acquired.nextToken !== '') return this.ask(acquired.nextToken)
        return this.#blocked(acquired)
      case 'granted':
        // The connection broke in between: another server may have replied to a request meant for the previous one, even if it is known by now.
        if (broken) return this.ask()
        if (replicas < this.#runtime.settings.replicas) {
          return this.#reportError({
            transient: true,
            ambiguous: false,
            error: this.#runtime.notEnoughReplicas(replicas),
          })
        }
        if (acquired.nextToken !== '')
          void continueSteps(this.#runtime.pipeline, this.#keys, acquired.nextToken)
        // Written out: a spread costs more than the rest of this method.
        return this.#granted({
          token: acquired.token,
          validUntil: deadline(sent, this.#claim.ttl),
          contended: acquired.contended || this.#othersWait,
          reachable: this.#reachable && this.#open === 0,
        })
    }
  }

  #otherLimit(limit: number): RangeError {
    const { name, mode } = this.#claim
    return permitLimitError(name, limit, mode.kind === 'permits' ? mode.of : 0)
  }

  #send(from?: string): void {
    const { pipeline, subscriber } = this.#runtime
    this.#asked = true
    this.#open++
    pipeline.ask(acquire, this.#keys, toArguments(this.#claim, this.#once, subscriber.up, from), this)
  }

  #blocked({
    place,
    left,
    canPush,
    quarantinedFor,
    fromOtherServer,
    holder,
  }: AcquireReply & { is: 'blocked' }): void {
    const { subscriber, pipeline, random, server } = this.#runtime
    if (!fromOtherServer) this.#foreignReplies = 0
    else if (this.#foreignReplies++ < maxForeignReplies && !this.#wait.ended) {
      server.changed()
      return this.ask()
    }
    this.#hasReply = true
    this.#wait.report?.({
      ...(holder && { holder }),
      ...(place > 0 && { position: place }),
      ...(quarantinedFor > 0 && { error: quarantined(quarantinedFor) }),
    })
    // After several requests (the channel came up, or the connection broke), another reply must not be a grant that nobody knows of.
    const settled = this.#open === 0 && this.#began === pipeline.epoch && pipeline.connection.repeats !== true
    if (this.#once && settled) return this.#end(undefined)
    if (this.#once || this.#wait.ended) return this.#giveUp()
    this.#listen()
    subscriber.open()
    const message = (canPush && this.#reachable) || quarantinedFor > 0
    const next = nextPollIn(place, left, message, message ? 0 : this.#polls++, random())
    // Otherwise a wait that short could end without a second look at what a holder's cache has given way to.
    const soon = this.#short && !message && holder !== undefined && mayBeCached(holder.attempt)
    this.#later(soon ? Math.min(next, Math.max(2, this.#wait.remaining() / 2)) : next)
  }

  /** From now on the waiter reacts to the end of the wait at once. */
  #listen(): void {
    if (this.#over !== undefined) return
    this.#over = () => this.#giveUp()
    this.#wait.signal.addEventListener('abort', this.#over, { once: true })
  }

  #later(ms: number): void {
    const { clock } = this.#runtime
    this.#disarm?.()
    this.#pollAt = clock.now() + Math.max(ms, 2)
    this.#disarm = clock.at(this.#pollAt, () => this.ask())
  }

  #reportError({ transient, ambiguous, error }: Failure): void {
    if (this.#settled) return
    if (ambiguous) this.#ambiguous = true
    this.#hasReply = true
    this.#wait.report?.({ error })
    const pause = Math.min(1_000, 25 * 2 ** Math.min(this.#failures++, 8)) * (0.5 + this.#runtime.random())
    if (!transient || this.#once || this.#wait.remaining() <= pause) return this.#giveUp(error)
    this.#listen()
    this.#later(pause)
  }

  #granted(proven: HoldProof): void {
    if (this.#wait.ended) return this.#giveUp()
    // If the notification is true, the grant is gone: ask once; after that the hold checks.
    if (this.#revoked === 'told') {
      this.#revoked = 'asked'
      return this.ask()
    }
    this.#end(new Hold(this.#runtime, this.#claim, this.#keys, proven))
  }

  /** Leaves the queue, or releases what was granted meanwhile, and has the server refuse requests that may still be in flight. */
  #giveUp(error?: unknown): void {
    if (this.#settled) return
    this.#leave()
    const { attempt, ttl } = this.#claim
    const ended = () => (error === undefined ? this.#settle(undefined) : this.#fail(error))
    const { epoch, connection } = this.#runtime.pipeline
    const doubtful = this.#ambiguous || this.#open > 0 || this.#began !== epoch || connection.repeats === true
    const gone = !this.#asked || this.#runtime.cancel(attempt, this.#keys, ttl, doubtful ? tombstoneTtl : 0)
    // A server that left a request unanswered will not answer this one sooner: cancel in the background.
    if (gone === true || this.#ambiguous) ended()
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
    this.#hints?.stop()
    this.#silence?.stop()
    if (this.#over !== undefined) this.#wait.signal.removeEventListener('abort', this.#over)
  }
}
