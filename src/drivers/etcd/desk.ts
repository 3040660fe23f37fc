/** What one driver has open: its client, its leases, and what it still has to clean up. */
import type { Claim, Env } from '../../core/driver.js'
import { BackendError } from '../../core/errors.js'
import { Bell } from '../kit/bell.js'
import { Client } from './client.js'
import { type Line, lineOf } from './keys.js'
import type { Settings } from './options.js'
import { Session } from './session.js'
import { Refusal, troubleOf } from './trouble.js'
import type { TxnAsk } from './wire.js'

export class Desk {
  readonly client: Client
  readonly env: Env
  readonly settings: Settings
  /** Which key a token stands for, as long as it is held: for `guard`. */
  readonly keys: Map<number, string>
  readonly bells: Set<Bell> = new Set()
  closed = false
  /** By ttl in seconds. */
  readonly #shared = new Map<number, Promise<Session>>()
  readonly #open = new Set<Session>()
  readonly #chases = new Set<Promise<void>>()

  constructor(settings: Settings, env: Env, keys: Map<number, string>) {
    this.settings = settings
    this.env = env
    this.keys = keys
    this.client = new Client(settings, env.clock)
  }

  line(name: string): Line {
    return lineOf(this.settings.prefix, name)
  }

  /** The lease that keeps a claim: one for all of the same ttl, or one of its own. */
  async session(ttl: number): Promise<Session> {
    this.assertOpen()
    // A tenth more than is claimed: a proof some moments old then still covers a whole ttl from now.
    const seconds = Math.ceil((ttl * 1.1) / 1000)
    if (this.settings.ownLeases) return this.#grant(seconds)
    const known = this.#shared.get(seconds)
    if (known !== undefined) {
      const session = await known
      if (session.usable) return session
      if (this.#shared.get(seconds) === known) this.#shared.delete(seconds)
      session.end()
      this.#open.delete(session)
      return this.session(ttl)
    }
    const granted = this.#grant(seconds)
    this.#shared.set(seconds, granted)
    granted.catch(() => this.#shared.delete(seconds))
    return granted
  }

  /** Nothing is kept by it any more. */
  done(session: Session): void {
    if (!this.settings.ownLeases || !session.idle || !this.#open.delete(session)) return
    session.end()
    this.#follow(this.client.revokeLease(session.id).then(none, none))
  }

  /**
   * Does it until the store has done it, or the lease is over and everything with it. Resolves after the first try, however
   * that went; the others are made in the background.
   */
  chase(ask: TxnAsk, session: Session, pace: number): Promise<void> {
    return new Promise((tried) => {
      const bell = this.bell()
      const work = async () => {
        while (!this.closed && !session.dead) {
          const over = await this.client.txn(ask).then(
            () => true,
            (error) => (error instanceof Refusal && error.noLease) || !troubleOf(error).passing,
          )
          tried()
          if (over) break
          await bell.rest(Math.max(100, pace))
        }
        this.bells.delete(bell)
        tried()
        this.done(session)
      }
      this.#follow(work())
    })
  }

  /** Rung when the driver is closed. Whoever asks for it takes it out of `bells`. */
  bell(): Bell {
    const bell = new Bell(this.env.clock)
    this.bells.add(bell)
    return bell
  }

  assertOpen(): void {
    if (this.closed) throw new BackendError('etcd', 'these locks were closed', { closed: true })
  }

  /** The leases go, and all that is kept by them. */
  async close(): Promise<void> {
    if (this.closed) return
    this.closed = true
    for (const bell of this.bells) bell.ring()
    const revoked = [...this.#open].map((session) => {
      session.end()
      return this.client.revokeLease(session.id).then(none, none)
    })
    const late = new Bell(this.env.clock)
    const all = Promise.all([...revoked, ...this.#chases]).then(late.ring)
    await late.rest(this.settings.requestTimeout)
    this.client.close()
    await all
  }

  async #grant(seconds: number): Promise<Session> {
    const { is, sent } = await this.client.grantLease(seconds)
    const { ID = '', TTL = '0' } = is
    const session = new Session(this.client, this.env.clock, ID, Number(TTL) * 1000, sent)
    if (this.closed) {
      this.client.revokeLease(ID).then(none, none)
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

/** How long a claim's cleaning up pauses between tries. */
export const paceOf = ({ ttl }: Claim): number => Math.min(1_000, ttl / 6)
