/**
 * What keeps places in the line of a store that counts time itself: a lease of etcd, a session of Consul. One is shared by all
 * places of a process that ask for the same ttl.
 *
 * A *beat* keeps it alive and looks whether every place is still there; it is one beat for all places, whoever asks for it. How
 * the store is asked is the driver's: what counts here is that the answer holds from before the question left.
 */
import { type Clock, deadline } from '../../core/clock.js'

/** A place kept by the session. */
export interface Member {
  readonly key: string
  /** Of somebody waited for, whose end was perhaps not told. */
  before?: string | undefined
  /** True: it must be kept alive by beats of the session's own, because nobody else asks for them. */
  readonly waits: boolean
  /** The place is gone for certain. */
  gone(): void
  /** What was waited for is gone, or cannot be watched here any more. */
  wake(): void
  trouble(error: unknown): void
}

/** The store's answer to a beat. `dead`: it knows no such session; `ttl`: for how long it is kept now, where that is told. */
export type Beaten = 'dead' | { readonly ttl?: number; readonly gone: ReadonlySet<string> }

/** Asks the store to keep `id`, and which of these members are not there. Rejects when it cannot tell. */
export type Beat = (id: string, members: readonly Member[], patience: number) => Promise<Beaten>

export class Session {
  readonly id: string
  /** As granted, in ms. */
  readonly ttl: number
  /** Clock reading until which the session is proven, and before its proof left. */
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
    // It ended while the request for the place was on its way.
    if (this.dead) return member.gone()
    if (member.waits) this.#arm()
  }

  drop(member: Member): void {
    this.#members.delete(member)
    if (!this.#needsBeats()) this.#rest()
  }

  /** Proves the session and every place again. Rejects when it cannot tell. */
  beat(patience: number = this.ttl / 6): Promise<void> {
    const now = this.#clock.now()
    // Many leases are renewed on one beat; what has just been proven for one has been proven for all.
    const last = this.#last
    if (last !== undefined && !last.failed && now - last.sent < this.ttl / 24) return last.done
    const beat = { sent: now, failed: false, done: this.#beat(now, Math.max(50, patience)) }
    beat.done.catch(() => {
      beat.failed = true
    })
    this.#last = beat
    return beat.done
  }

  /** The store says so, its ttl has passed without a word, or it is given up. */
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
      for (const member of [...this.#members]) {
        member.trouble(error)
        member.wake()
      }
    }
    this.#beating = false
    if (this.#needsBeats()) this.#arm()
  }

  #rest(): void {
    this.#disarm?.()
    this.#disarm = undefined
  }
}

/** The keys to ask about, each once: those of the members and of whom they wait for. */
export function keysOf(members: readonly Member[]): string[] {
  const keys = members.flatMap(({ key, before }) => (before === undefined ? [key] : [key, before]))
  return [...new Set(keys)]
}

/** In portions, because a transaction may only have so many operations. */
export function inPortions<T>(all: readonly T[], most: number): T[][] {
  const portions: T[][] = []
  for (let i = 0; i < all.length; i += most) portions.push(all.slice(i, i + most))
  return portions
}
