/**
 * A server-side lease (etcd) or session (Consul) that keeps queue entries alive in a store that counts time itself. One session is
 * shared by all entries of a process that ask for the same ttl.
 *
 * A *heartbeat* keeps the session alive and checks that every entry still exists. One heartbeat serves all entries, whichever of them
 * asked for it. The driver decides how to query the store; what matters here is that an answer counts from before its request left.
 */
import { type Clock, deadline } from '../../../core/clock.js'

/** A queue entry kept by the session. */
export interface SessionEntry {
  readonly key: string
  /** The entry this member waits for, as the heartbeat checks it; the notification of its end may have been lost. */
  predecessor?: string | undefined
  /** True: the session must send heartbeats of its own for this member, because no renewal asks for them. */
  readonly waits: boolean
  /** The queue entry is certainly gone. */
  onGone(): void
  /** The key waited for is gone, or can no longer be watched here. */
  onWake(): void
  onFailure(error: unknown): void
}

/** The store's answer to a heartbeat. `ended`: the store knows no such session; `ttl`: the session's new ttl, if the store reports it. */
export type HeartbeatReply = 'ended' | { readonly ttl?: number; readonly gone: ReadonlySet<string> }

/** Asks the store to keep `id` alive, and which of these members no longer exist. Rejects when the store gives no clear answer. */
export type SendHeartbeat = (
  id: string,
  entries: readonly SessionEntry[],
  timeout: number,
) => Promise<HeartbeatReply>

interface Heartbeat {
  readonly sent: number
  failed: boolean
  callers: number
  /** For the next caller. */
  done: Promise<void>
}

/** A hundred renewed leases take some milliseconds. */
const callersPerTurn = 100

export class Session {
  readonly id: string
  /** As granted, in ms. */
  readonly ttl: number
  /** Clock readings: until when the session is proven (`until`), and just before the request of that proof left (`sent`). */
  until: number
  sent: number
  ended = false
  readonly #clock: Clock
  readonly #send: SendHeartbeat
  readonly #entries = new Set<SessionEntry>()
  #last: Heartbeat | undefined
  #disarm: (() => void) | undefined
  #sendingHeartbeat = false

  constructor(ask: SendHeartbeat, clock: Clock, id: string, ttl: number, sent: number) {
    this.#send = ask
    this.#clock = clock
    this.id = id
    this.ttl = ttl
    this.sent = sent
    this.until = deadline(sent, ttl)
  }

  get usable(): boolean {
    return !this.ended && this.#clock.now() < this.until
  }

  get idle(): boolean {
    return this.#entries.size === 0
  }

  add(entry: SessionEntry): void {
    this.#entries.add(entry)
    // The session ended while the request for the entry was in flight.
    if (this.ended) return entry.onGone()
    if (entry.waits) this.#arm()
  }

  drop(entry: SessionEntry): void {
    this.#entries.delete(entry)
    // The timer is armed for waiters alone. A hold that leaves need not scan thousands of others.
    if (entry.waits && !this.#needsHeartbeats()) this.#disarmTimer()
  }

  /** Proves the session and every entry again. Rejects when the store gives no clear answer. */
  heartbeat(timeout: number = this.ttl / 6): Promise<void> {
    const now = this.#clock.now()
    // One heartbeat renews many leases: what has just been proven for one has been proven for all.
    const last = this.#last
    if (last !== undefined && !last.failed && now - last.sent < this.ttl / 24) return this.#join(last)
    const done = this.#sendHeartbeat(now, Math.max(50, timeout))
    const heartbeat = { sent: now, failed: false, callers: 1, done }
    done.catch(() => {
      heartbeat.failed = true
    })
    this.#last = heartbeat
    return done
  }

  /** One reply may renew thousands of leases, so the event loop turns after every hundred callers. */
  #join(heartbeat: Heartbeat): Promise<void> {
    if (heartbeat.callers++ % callersPerTurn === 0)
      heartbeat.done = heartbeat.done.finally(() => new Promise<void>((next) => this.#clock.soon(next)))
    return heartbeat.done
  }

  /** Ends the session: the store reports its end, its ttl has passed without an answer, or the driver gives it up. */
  end(): void {
    if (this.ended) return
    this.ended = true
    this.#disarmTimer()
    for (const entry of [...this.#entries]) entry.onGone()
  }

  async #sendHeartbeat(sent: number, timeout: number): Promise<void> {
    const entries = [...this.#entries]
    const answer = await this.#send(this.id, entries, timeout)
    if (answer === 'ended') return this.end()
    const { ttl = this.ttl, gone } = answer
    this.until = Math.max(this.until, deadline(sent, ttl))
    this.sent = Math.max(this.sent, sent)
    for (const entry of entries) {
      if (gone.has(entry.key)) entry.onGone()
      else if (entry.predecessor !== undefined && gone.has(entry.predecessor)) entry.onWake()
    }
  }

  #needsHeartbeats(): boolean {
    for (const { waits } of this.#entries) if (waits) return true
    return false
  }

  #arm(): void {
    if (this.#disarm !== undefined || this.#sendingHeartbeat || this.ended) return
    const again = this.#last?.failed === true ? this.#clock.now() + this.ttl / 12 : this.sent + this.ttl / 3
    this.#disarm = this.#clock.at(again, () => void this.#onDue())
  }

  async #onDue(): Promise<void> {
    this.#disarm = undefined
    this.#sendingHeartbeat = true
    try {
      await this.heartbeat()
    } catch (error) {
      if (this.#clock.now() >= this.until) this.end()
      // Do not wake them: all would query a store already in trouble, and the next heartbeat checks the keys they wait for.
      for (const entry of [...this.#entries]) entry.onFailure(error)
    }
    this.#sendingHeartbeat = false
    if (this.#needsHeartbeats()) this.#arm()
  }

  #disarmTimer(): void {
    this.#disarm?.()
    this.#disarm = undefined
  }
}

/** The keys to check, each once: those of the members and those they wait for. */
export function watchedKeys(entries: readonly SessionEntry[]): string[] {
  const keys = entries.flatMap(({ key, predecessor }) =>
    predecessor === undefined ? [key] : [key, predecessor],
  )
  return [...new Set(keys)]
}

/** Splits `all` into portions: a transaction may only have a limited number of operations. */
export function inBatches<T>(all: readonly T[], most: number): T[][] {
  const portions: T[][] = []
  for (let i = 0; i < all.length; i += most) portions.push(all.slice(i, i + most))
  return portions
}
