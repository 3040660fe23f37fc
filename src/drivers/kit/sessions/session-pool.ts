/** The open resources of one driver: its sessions, its pending clean-up work, and the resting waiters to wake when it closes. */
import type { Env } from '../../../core/driver.js'
import { BackendError } from '../../../core/errors.js'
import { Bell } from '../auto-reset-event.js'
import { type Beat, Session } from './session.js'

/** The session operations of a store. */
export interface SessionStore {
  /** The driver's name, for messages. */
  readonly name: string
  /** True: one session per lock instead of one for all locks of the same ttl. */
  readonly each: boolean
  /** How long closing may take, in ms. */
  readonly patience: number
  readonly beat: Beat
  /** The session ttl in ms that covers claims of `ttl`. The same for claims that share a session. */
  ttlFor(ttl: number): number
  create(ttl: number): Promise<{ readonly id: string; readonly ttl: number; readonly sent: number }>
  destroy(id: string): Promise<unknown>
  /** Closes the connections. */
  close(): void
}

export class SessionDesk {
  readonly env: Env
  closed = false
  readonly #store: SessionStore
  readonly #bells = new Set<Bell>()
  readonly #shared = new Map<number, Promise<Session>>()
  /** Keyed by attempt, so that a repeated request of a claim finds the claim's own session. */
  readonly #each = new Map<string, Promise<Session>>()
  readonly #ends = new WeakMap<Session, () => void>()
  readonly #open = new Set<Session>()
  readonly #chases = new Set<Promise<void>>()

  constructor(store: SessionStore, env: Env) {
    this.#store = store
    this.env = env
  }

  /** The session that keeps a claim: shared by all claims of the same ttl, or its own. */
  async session(ttl: number, attempt: string): Promise<Session> {
    this.assertOpen()
    const wanted = this.#store.ttlFor(ttl)
    return this.#store.each
      ? this.#knownOr(this.#each, `${attempt} ${wanted}`, wanted)
      : this.#knownOr(this.#shared, wanted, wanted)
  }

  async #knownOr<K>(all: Map<K, Promise<Session>>, key: K, wanted: number): Promise<Session> {
    const known = all.get(key)
    if (known !== undefined) {
      const session = await known
      if (session.usable) return session
      if (all.get(key) === known) all.delete(key)
      session.end()
      this.#open.delete(session)
      this.assertOpen()
      return this.#knownOr(all, key, wanted)
    }
    const created = this.#create(wanted)
    all.set(key, created)
    const forget = () => {
      if (all.get(key) === created) all.delete(key)
    }
    created.then((session) => this.#ends.set(session, forget), forget)
    return created
  }

  /** Destroys the session if it belongs to one lock and keeps nothing any more. */
  done(session: Session): void {
    if (!this.#store.each || !session.idle || !this.#open.delete(session)) return
    session.end()
    this.#ends.get(session)?.()
    this.#follow(this.#store.destroy(session.id).then(none, none))
  }

  /**
   * Repeats `work` until it resolves with true, or the session is over and everything with it, or the driver closes. Resolves after
   * the first try, whether that succeeded or failed; further tries run in the background.
   */
  chase(work: () => Promise<boolean>, session: Session, pace: number): Promise<void> {
    return new Promise((tried) => {
      const bell = this.bell()
      const chase = async () => {
        while (!this.closed && !session.dead) {
          const over = await work().catch(() => false)
          tried()
          if (over) break
          await bell.rest(Math.max(100, pace))
        }
        this.quit(bell)
        tried()
        this.done(session)
      }
      this.#follow(chase())
    })
  }

  /** A bell that rings when the driver closes. The caller must `quit` it. */
  bell(): Bell {
    const bell = new Bell(this.env.clock)
    this.#bells.add(bell)
    return bell
  }

  quit(bell: Bell): void {
    this.#bells.delete(bell)
  }

  assertOpen(): void {
    if (this.closed) throw new BackendError(this.#store.name, 'these locks were closed', { closed: true })
  }

  /** Destroys the sessions, and with them everything they keep. */
  async close(): Promise<void> {
    if (this.closed) return
    this.closed = true
    for (const bell of this.#bells) bell.ring()
    const gone = [...this.#open].map((session) => {
      session.end()
      return this.#store.destroy(session.id).then(none, none)
    })
    const late = new Bell(this.env.clock)
    const all = Promise.all([...gone, ...this.#chases]).then(late.ring)
    await late.rest(this.#store.patience)
    this.#store.close()
    await all
  }

  async #create(wanted: number): Promise<Session> {
    const { id, ttl, sent } = await this.#store.create(wanted)
    const session = new Session(this.#store.beat, this.env.clock, id, ttl, sent)
    if (this.closed) {
      this.#store.destroy(id).then(none, none)
      this.assertOpen()
    }
    this.#open.add(session)
    return session
  }

  #follow(work: Promise<void>): void {
    const followed: Promise<void> = work.finally(() => this.#chases.delete(followed))
    this.#chases.add(followed)
  }
}

const none = () => undefined
