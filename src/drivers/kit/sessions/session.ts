/**
 * A server-side lease (etcd) or session (Consul) that keeps queue entries alive in a store that counts time itself. One session is
 * shared by all entries of a process that ask for the same ttl.
 *
 * A *heartbeat* keeps the session alive and checks that every entry still exists. One heartbeat serves all entries, whichever of them
 * asked for it. The driver decides how to query the store; what matters here is that an answer counts from before its request left.
 */
import { type Clock, deadline } from '../../../core/clock.js'

/** A queue entry kept by the session. */
export interface Member {
  readonly key: string
  /** The key this member waits for; the notification of its end may have been lost. */
  before?: string | undefined
  /** True: the session must send heartbeats of its own for this member, because no renewal asks for them. */
  readonly waits: boolean
  /** The queue entry is certainly gone. */
  gone(): void
  /** The key waited for is gone, or can no longer be watched here. */
  wake(): void
  trouble(error: unknown): void
}

/** The store's answer to a heartbeat. `dead`: the store knows no such session; `ttl`: the session's new ttl, if the store reports it. */
export type Beaten = 'dead' | { readonly ttl?: number; readonly gone: ReadonlySet<string> }

/** Asks the store to keep `id` alive, and which of these members no longer exist. Rejects when the store gives no clear answer. */
export type Beat = (id: string, members: readonly Member[], patience: number) => Promise<Beaten>

export class Session {
  readonly id: string
  /** As granted, in ms. */
  readonly ttl: number
  /** Clock readings: until when the session is proven (`until`), and just before the request of that proof left (`sent`). */
  until: number
  sent: number
  dead = false
  readonly #clock: Clock
  readonly #ask: Beat
  readonly #members = new Set<Member>()
  #last: { readonly sent: number; readonly done: Promise<void>; failed: boolean } | undefined
  #disarm: (() => void) | undefined
  #beating = false

  constructor(ask: Beat, clock: Clock, id: string, ttl: number, sent: number) {
    this.#ask = ask
    this.#clock = clock
    this.id = id
    this.ttl = ttl
    this.sent = sent
    this.until = deadline(sent, ttl)
  }

  get usable(): boolean {
    return !this.dead && this.#clock.now() < this.until
  }

  get idle(): boolean {
    return this.#members.size === 0
  }

  add(member: Member): void {
    this.#members.add(member)
    // The session ended while the request for the entry was in flight.
    if (this.dead) return member.gone()
    if (member.waits) this.#arm()
  }

  drop(member: Member): void {
    this.#members.delete(member)
    if (!this.#needsBeats()) this.#rest()
  }

  /** Proves the session and every entry again. Rejects when the store gives no clear answer. */
  beat(patience: number = this.ttl / 6): Promise<void> {
    const now = this.#clock.now()
    // One heartbeat renews many leases: what has just been proven for one has been proven for all.
    const last = this.#last
    if (last !== undefined && !last.failed && now - last.sent < this.ttl / 24) return last.done
    const beat = { sent: now, failed: false, done: this.#beat(now, Math.max(50, patience)) }
    beat.done.catch(() => {
      beat.failed = true
    })
    this.#last = beat
    return beat.done
  }

  /** Ends the session: the store reports its end, its ttl has passed without an answer, or the driver gives it up. */
  end(): void {
    if (this.dead) return
    this.dead = true
    this.#rest()
    for (const member of [...this.#members]) member.gone()
  }

  async #beat(sent: number, patience: number): Promise<void> {
    const members = [...this.#members]
    const answer = await this.#ask(this.id, members, patience)
    if (answer === 'dead') return this.end()
    const { ttl = this.ttl, gone } = answer
    this.until = Math.max(this.until, deadline(sent, ttl))
    this.sent = Math.max(this.sent, sent)
    for (const member of members) {
      if (gone.has(member.key)) member.gone()
      else if (member.before !== undefined && gone.has(member.before)) member.wake()
    }
  }

  #needsBeats(): boolean {
    for (const { waits } of this.#members) if (waits) return true
    return false
  }

  #arm(): void {
    if (this.#disarm !== undefined || this.#beating || this.dead) return
    const again = this.#last?.failed === true ? this.#clock.now() + this.ttl / 12 : this.sent + this.ttl / 3
    this.#disarm = this.#clock.at(again, () => void this.#due())
  }

  async #due(): Promise<void> {
    this.#disarm = undefined
    this.#beating = true
    try {
      await this.beat()
    } catch (error) {
      if (this.#clock.now() >= this.until) this.end()
      // Do not wake them: all would query a store already in trouble, and the next heartbeat checks the keys they wait for.
      for (const member of [...this.#members]) member.trouble(error)
    }
    this.#beating = false
    if (this.#needsBeats()) this.#arm()
  }

  #rest(): void {
    this.#disarm?.()
    this.#disarm = undefined
  }
}

/** The keys to check, each once: those of the members and those they wait for. */
export function keysOf(members: readonly Member[]): string[] {
  const keys = members.flatMap(({ key, before }) => (before === undefined ? [key] : [key, before]))
  return [...new Set(keys)]
}

/** Splits `all` into portions: a transaction may only have a limited number of operations. */
export function inPortions<T>(all: readonly T[], most: number): T[][] {
  const portions: T[][] = []
  for (let i = 0; i < all.length; i += most) portions.push(all.slice(i, i + most))
  return portions
}
