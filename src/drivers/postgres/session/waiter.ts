/**
 * One claim of the strategy `session`: tries, stands in line, tries again when it is told or after a while. Nobody is told when a
 * holder's connection dies, so it looks by itself, too. While it does so in time, nobody behind it may try.
 */
import { deadline } from '../../../core/clock.js'
import type { Claim, Env, Grant, Wait } from '../../../core/driver.js'
import { BackendError } from '../../../core/errors.js'
import { acquiredOf } from '../inspect.js'
import { type Trouble, troubleOf } from '../trouble.js'
import { SessionHold } from './hold.js'
import { lockKey, rowName } from './key.js'
import type { Session, Told } from './session.js'

/** How often it looks, in ms, where it is told; where it is not. */
const looks = { told: 400, polling: [5, 10, 20, 50, 100] }
/** How long a waiter is thought alive after it has asked, in ms: one whose process stands still for a second or two keeps its place. */
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
  #asking = false
  #again = false
  #asked = false
  #failures = 0
  #polls = 0
  #settled = false
  #listening = false
  #disarm: (() => void) | undefined
  readonly #over = () => this.#giveUp()

  constructor(
    [session, waiters, env]: readonly [Session, Map<string, SessionWaiter>, Env],
    namespace: string,
    claim: Claim,
    wait: Wait,
    settle: (grant: Grant | undefined) => void,
    fail: (error: unknown) => void,
  ) {
    this.#session = session
    this.#waiters = waiters
    this.#env = env
    this.#claim = claim
    this.#key = lockKey(namespace, claim.name)
    this.#wait = wait
    this.#once = wait.remaining() === 0
    this.#settle = settle
    this.#fail = fail
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
    const asked = session.ask(session.calls.sessionAcquire, () => [
      ...[rowName(name), attempt, mode.kind === 'shared' ? 's' : 'x', this.#key, Math.round(ttl * 1000)],
      ...[this.#once ? 0 : 1, alive * 1000, session.idle(), session.channel, this.#env.by, note],
    ])
    asked.then(
      (told) => this.#answered(told),
      (error) => this.#trouble(troubleOf(error)),
    )
  }

  /** The driver is being closed. */
  stop(): void {
    this.#giveUp(new BackendError('postgres', 'the locks were closed', { closed: true }))
  }

  #answered({ answer, sent, life }: Told): void {
    this.#asking = false
    const acquired = acquiredOf(answer)
    if (this.#settled) {
      // It was sent again after it had been given up.
      if (acquired.is === 'granted') void this.#release().catch(() => undefined)
      return
    }
    this.#failures = 0
    if (acquired.is === 'granted') {
      if (life.ended.aborted) return this.ask()
      if (this.#wait.over) return this.#giveUp()
      const proven = { token: acquired.token, validUntil: deadline(sent, this.#claim.ttl), life }
      this.#leave()
      this.#settle(new SessionHold(this.#session, this.#claim, proven))
      return
    }
    if (acquired.is !== 'blocked')
      return this.#giveUp(new BackendError('postgres', `answered ${acquired.is}`))
    const { holder, place } = acquired
    this.#wait.blocked?.({ ...(holder && { holder }), ...(place > 0 && { position: place }) })
    if (this.#once) return this.#nothing()
    if (this.#wait.over) return this.#giveUp()
    this.#listen()
    if (this.#again) return this.ask()
    const told = this.#session.channel !== null
    const pause = told ? looks.told : (looks.polling[Math.min(this.#polls++, 4)] ?? 100)
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

  #trouble({ passing, error }: Trouble): void {
    this.#asking = false
    if (this.#settled) return
    this.#wait.blocked?.({ trouble: error })
    const pause = Math.min(1_000, 25 * 2 ** Math.min(this.#failures++, 8)) * (0.5 + this.#env.random())
    if (!passing || this.#once || this.#wait.remaining() <= pause) return this.#giveUp(error)
    this.#listen()
    if (this.#wait.over) this.#giveUp()
    else this.#later(pause)
  }

  /** Statements of one connection are carried out in order: what is still on its way is undone by this. */
  #giveUp(error?: unknown): void {
    if (this.#settled) return
    this.#leave()
    this.#session.ttls.delete(this.#claim.attempt)
    const ended = () => (error === undefined ? this.#settle(undefined) : this.#fail(error))
    if (this.#asked) this.#release().then(ended, ended)
    else ended()
  }

  /** A single attempt that was answered "not free" left nothing. */
  #nothing(): void {
    this.#leave()
    this.#session.ttls.delete(this.#claim.attempt)
    this.#settle(undefined)
  }

  #release(): Promise<unknown> {
    const { attempt, name } = this.#claim
    return this.#session.release(rowName(name), attempt)
  }

  #leave(): void {
    this.#settled = true
    this.#waiters.delete(this.#claim.attempt)
    this.#disarm?.()
    if (this.#listening) this.#wait.signal.removeEventListener('abort', this.#over)
  }
}
