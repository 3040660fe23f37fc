/**
 * One claim of the strategy `session`: it tries, enters the queue, and tries again when notified or after a while. Nothing notifies it when
 * a holder's connection dies, so it also polls. While it polls in time, no waiter behind it may try.
 */
import { deadline } from '../../../core/clock.js'
import type { Claim, Env, Grant, Wait } from '../../../core/driver.js'
import { BackendError } from '../../../core/errors.js'
import { Hints } from '../../kit/hints.js'
import { type Failure, toFailure } from '../failure.js'
import { parseAcquireReply } from '../inspect.js'
import { SessionHold } from './hold.js'
import { lockKey, rowName } from './key.js'
import type { Session, SessionResult } from './session.js'

/** Poll interval in ms: with notifications, and without. */
const pollPauses = { told: 400, polling: [5, 10, 20, 50, 100] }
/** How long a waiter is presumed alive after a request, in ms: if its process stalls for a second or two, it keeps its queue entry. */
const alive = 3_000

export class SessionWaiter {
  readonly #session: Session
  readonly #env: Env
  readonly #claim: Claim
  readonly #key: string
  readonly #wait: Wait
  readonly #once: boolean
  readonly #waiters: Map<string, SessionWaiter>
  readonly #settle: (grant: Grant | undefined) => void
  readonly #fail: (error: unknown) => void
  readonly #hints: Hints
  #asking = false
  #again = false
  #asked = false
  #failures = 0
  #polls = 0
  #settled = false
  #hasGivenUp = false
  #listening = false
  #disarm: (() => void) | undefined
  readonly #over = () => this.#giveUp()

  constructor(
    [session, waiters, env]: readonly [Session, Map<string, SessionWaiter>, Env],
    claim: Claim,
    wait: Wait,
    settle: (grant: Grant | undefined) => void,
    fail: (error: unknown) => void,
  ) {
    this.#session = session
    this.#waiters = waiters
    this.#env = env
    this.#claim = claim
    this.#key = lockKey(session.namespace, claim.name)
    this.#wait = wait
    this.#once = wait.remaining() === 0
    this.#settle = settle
    this.#fail = fail
    this.#hints = new Hints(env.clock, () => this.ask())
    waiters.set(claim.attempt, this)
    session.ttls.set(claim.attempt, claim.ttl)
  }

  ask(): void {
    if (this.#settled) return
    this.#disarm?.()
    this.#again = this.#asking
    if (this.#asking) return
    this.#asking = true
    this.#asked = true
    const { name, attempt, mode, ttl, note = '' } = this.#claim
    const session = this.#session
    // A claim that was given up is not sent again: the release that ended it may have run already.
    const asked = session.execute(session.calls.sessionAcquire, () =>
      this.#settled
        ? undefined
        : [
            ...[
              rowName(session.namespace, name),
              attempt,
              mode.kind === 'shared' ? 's' : 'x',
              this.#key,
              Math.round(ttl * 1000),
            ],
            ...[this.#once ? 0 : 1, alive * 1000, session.idle(), session.channel, this.#env.client, note],
          ],
    )
    asked.then(
      (result) => this.#answered(result),
      (error) => this.#onFailure(toFailure(error)),
    )
  }

  /** Handles a notification, which anybody with the right to notify may have sent: it is worth a try. */
  onNotification(): void {
    if (!this.#once) this.#hints.notify()
  }

  /** Called when the driver closes. */
  stop(): void {
    this.#giveUp(new BackendError('postgres', 'the locks were closed', { closed: true }))
  }

  #answered({ answer, sent, lifetime }: SessionResult): void {
    this.#asking = false
    this.#hints.queryDone()
    const acquired = parseAcquireReply(answer)
    if (this.#settled) {
      // It was sent again after the claim was given up. If the claim was granted before, the lock is its holder's.
      if (acquired.is === 'granted' && this.#hasGivenUp) void this.#release().catch(() => undefined)
      return
    }
    this.#failures = 0
    if (acquired.is === 'granted') {
      if (lifetime.ended.aborted) return this.ask()
      if (this.#wait.ended) return this.#giveUp()
      const proven = { token: acquired.token, validUntil: deadline(sent, this.#claim.ttl), lifetime }
      this.#leave()
      this.#settle(new SessionHold(this.#session, this.#claim, proven))
      return
    }
    if (acquired.is !== 'blocked')
      return this.#giveUp(new BackendError('postgres', `answered ${acquired.is}`))
    const { holder, place } = acquired
    this.#wait.report?.({ ...(holder && { holder }), ...(place > 0 && { position: place }) })
    if (this.#once) return this.#emptyAnswer()
    if (this.#wait.ended) return this.#giveUp()
    this.#listen()
    if (this.#again) return this.ask()
    const result = this.#session.channel !== null
    const pause = result ? pollPauses.told : (pollPauses.polling[Math.min(this.#polls++, 4)] ?? 100)
    this.#later(pause * (0.8 + 0.4 * this.#env.random()))
  }

  #listen(): void {
    if (this.#listening) return
    this.#listening = true
    this.#wait.signal.addEventListener('abort', this.#over, { once: true })
  }

  #later(ms: number): void {
    const { clock } = this.#env
    this.#disarm?.()
    this.#disarm = clock.at(clock.now() + ms, () => this.ask())
  }

  #onFailure({ transient, error }: Failure): void {
    this.#asking = false
    this.#hints.queryDone()
    if (this.#settled) return
    this.#wait.report?.({ error })
    const pause = Math.min(1_000, 25 * 2 ** Math.min(this.#failures++, 8)) * (0.5 + this.#env.random())
    if (!transient || this.#once || this.#wait.remaining() <= pause) return this.#giveUp(error)
    this.#listen()
    if (this.#wait.ended) this.#giveUp()
    else this.#later(pause)
  }

  /** Statements on one connection run in order: this release undoes what is still in flight. */
  #giveUp(error?: unknown): void {
    if (this.#settled) return
    this.#hasGivenUp = true
    this.#leave()
    this.#session.ttls.delete(this.#claim.attempt)
    const ended = () => (error === undefined ? this.#settle(undefined) : this.#fail(error))
    if (this.#asked) this.#release().then(ended, ended)
    else ended()
  }

  /** A single attempt answered "not free" left nothing behind. */
  #emptyAnswer(): void {
    this.#leave()
    this.#session.ttls.delete(this.#claim.attempt)
    this.#settle(undefined)
  }

  #release(): Promise<unknown> {
    const { attempt, name } = this.#claim
    return this.#session.release(rowName(this.#session.namespace, name), attempt)
  }

  #leave(): void {
    this.#settled = true
    this.#waiters.delete(this.#claim.attempt)
    this.#disarm?.()
    this.#hints.stop()
    if (this.#listening) this.#wait.signal.removeEventListener('abort', this.#over)
  }
}
