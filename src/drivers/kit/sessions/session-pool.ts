/** The open resources of one driver: its sessions, its pending clean-up work, and the parked waiters to wake when it closes. */
import type { Env } from '../../../core/driver.js'
import { BackendError } from '../../../core/errors.js'
import { AutoResetEvent } from '../auto-reset-event.js'
import { AllLocalWaiters } from '../local-waiters.js'
import { type SendHeartbeat, Session } from './session.js'

/** The session operations of a store. */
export interface SessionApi {
  /** The driver's name, for messages. */
  readonly name: string
  /** True: one session per lock instead of one for all locks of the same ttl. */
  readonly perLock: boolean
  /** How long closing may take, in ms. */
  readonly closeTimeout: number
  readonly heartbeat: SendHeartbeat
  /** The session ttl in ms that covers claims of `ttl`. The same for claims that share a session. */
  sessionTtl(ttl: number): number
  create(ttl: number): Promise<{ readonly id: string; readonly ttl: number; readonly sent: number }>
  destroy(id: string): Promise<unknown>
  /** Closes the connections. */
  close(): void
}

export class SessionPool {
  readonly env: Env
  closed = false
  readonly waiters: AllLocalWaiters = new AllLocalWaiters({ watching: 3, atOnce: 32 })
  readonly #api: SessionApi
  readonly #events = new Set<AutoResetEvent>()
  readonly #shared = new Map<number, Promise<Session>>()
  /** Keyed by attempt, so that a repeated request of a claim finds the claim's own session. */
  readonly #perLock = new Map<string, Promise<Session>>()
  readonly #unregisterAll = new WeakMap<Session, () => void>()
  readonly #open = new Set<Session>()
  readonly #retries = new Set<Promise<void>>()

  constructor(store: SessionApi, env: Env) {
    this.#api = store
    this.env = env
  }

  /** The session that keeps a claim: shared by all claims of the same ttl, or its own. */
  async session(ttl: number, attempt: string): Promise<Session> {
    this.assertOpen()
    const wanted = this.#api.sessionTtl(ttl)
    return this.#api.perLock
      ? this.#existingOr(this.#perLock, `${attempt} ${wanted}`, wanted)
      : this.#existingOr(this.#shared, wanted, wanted)
  }

  async #existingOr<K>(all: Map<K, Promise<Session>>, key: K, wanted: number): Promise<Session> {
    const known = all.get(key)
    if (known !== undefined) {
      const session = await known
      if (session.usable) return session
      if (all.get(key) === known) all.delete(key)
      session.end()
      this.#open.delete(session)
      this.assertOpen()
      return this.#existingOr(all, key, wanted)
    }
    const created = this.#create(wanted)
    all.set(key, created)
    const forget = () => {
      if (all.get(key) === created) all.delete(key)
    }
    created.then((session) => this.#unregisterAll.set(session, forget), forget)
    return created
  }

  /** Destroys the session if it belongs to one lock and keeps nothing any more. */
  releaseSession(session: Session): void {
    if (!this.#api.perLock || !session.idle || !this.#open.delete(session)) return
    session.end()
    this.#unregisterAll.get(session)?.()
    this.#track(this.#api.destroy(session.id).then(none, none))
  }

  /**
   * Repeats `work` until it resolves with true, or the session is over and everything with it, or the driver closes. Resolves after
   * the first try, whether that succeeded or failed; further tries run in the background.
   */
  retryUntilDone(work: () => Promise<boolean>, session: Session, interval: number): Promise<void> {
    return new Promise((tried) => {
      const registerEvent = this.registerEvent()
      const retryUntilDone = async () => {
        // At least once: the session may have ended by our clock alone, and the store keeps what it has for some time yet.
        while (!this.closed) {
          const over = await work().catch(() => false)
          tried()
          if (over || session.ended) break
          await registerEvent.wait(Math.max(100, interval))
        }
        this.unregister(registerEvent)
        tried()
        this.releaseSession(session)
      }
      this.#track(retryUntilDone())
    })
  }

  /** An event that is set when the driver closes. The caller must `unregister` it. */
  registerEvent(): AutoResetEvent {
    const registerEvent = new AutoResetEvent(this.env.clock)
    this.#events.add(registerEvent)
    return registerEvent
  }

  unregister(registerEvent: AutoResetEvent): void {
    this.#events.delete(registerEvent)
  }

  assertOpen(): void {
    if (this.closed) throw new BackendError(this.#api.name, 'these locks were closed', { closed: true })
  }

  /** Destroys the sessions, and with them everything they keep. */
  async close(): Promise<void> {
    if (this.closed) return
    this.closed = true
    for (const registerEvent of this.#events) registerEvent.set()
    const gone = [...this.#open].map((session) => {
      session.end()
      return this.#api.destroy(session.id).then(none, none)
    })
    const late = new AutoResetEvent(this.env.clock)
    const all = Promise.all([...gone, ...this.#retries]).then(late.set)
    await late.wait(this.#api.closeTimeout)
    this.#api.close()
    await all
  }

  async #create(wanted: number): Promise<Session> {
    const { id, ttl, sent } = await this.#api.create(wanted)
    const session = new Session(this.#api.heartbeat, this.env.clock, id, ttl, sent)
    if (this.closed) {
      this.#api.destroy(id).then(none, none)
      this.assertOpen()
    }
    this.#open.add(session)
    return session
  }

  #track(work: Promise<void>): void {
    const followed: Promise<void> = work.finally(() => this.#retries.delete(followed))
    this.#retries.add(followed)
  }
}

const none = () => undefined
