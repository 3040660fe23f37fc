/**
 * A lease of the store and all that is kept by it: the places in line of one process.
 *
 * A *beat* keeps it alive and looks whether every place is still there. A lease's keepalive alone proves little: the leader
 * answers it by itself, also one that has been replaced and does not know yet. So the keepalive counts only together with a
 * read that needs a majority, from the same member in the same term, counted from before both left. It is one beat for
 * all places, whoever asks for it.
 */
import { type Clock, deadline } from '../../core/clock.js'
import type { Client } from './client.js'
import { Unsure } from './trouble.js'
import { present } from './txns.js'

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

/** A transaction may have 128 operations, unless the cluster is told otherwise. */
const mostInTxn = 100

export class Session {
  readonly id: string
  /** As granted, in ms. */
  readonly ttl: number
  /** Clock reading until which the lease is proven, and before its proof left. */
  until: number
  sent: number
  dead = false
  readonly #client: Client
  readonly #clock: Clock
  readonly #members = new Set<Member>()
  #last: { readonly sent: number; readonly done: Promise<void>; failed: boolean } | undefined
  #disarm: (() => void) | undefined
  #beating = false

  constructor(client: Client, clock: Clock, id: string, ttl: number, sent: number) {
    this.#client = client
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
    if (member.waits) this.#arm()
  }

  drop(member: Member): void {
    this.#members.delete(member)
    if (!this.#needsBeats()) this.#rest()
  }

  /** Proves the lease and every place again; for `since` it must have left after that. Rejects when it cannot tell. */
  beat(since: number = Number.NEGATIVE_INFINITY, patience: number = this.ttl / 6): Promise<void> {
    const now = this.#clock.now()
    // Many leases are renewed on one beat; what has just been proven for one has been proven for all.
    const last = this.#last
    if (last !== undefined && !last.failed && last.sent >= since && now - last.sent < this.ttl / 24)
      return last.done
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
    const keys = [
      ...new Set(members.flatMap(({ key, before }) => (before === undefined ? [key] : [key, before]))),
    ]
    const chunks: string[][] = []
    for (let i = 0; i < keys.length || i === 0; i += mostInTxn) chunks.push(keys.slice(i, i + mostInTxn))
    // With nothing to look for there still is a majority to ask; no key has an empty name's place.
    const [first, ...rest] = chunks.map((chunk) => present(chunk.length > 0 ? chunk : ['AA==']))
    const { kept, checked } = await this.#client.pair(this.id, first ?? {}, rest, patience)
    const lease = kept.is.result
    if (lease === undefined) throw new Unsure('a keepalive was answered with nothing')
    if (lease.TTL === undefined || Number(lease.TTL) <= 0) return this.end()
    const gone = new Set<string>()
    for (const [n, { is }] of checked.entries()) {
      if (is.header.raft_term !== lease.header?.raft_term)
        throw new Unsure('the leader changed during a renewal')
      for (const [i, key] of (chunks[n] ?? []).entries()) {
        if (Number(is.responses?.[i]?.response_range?.count ?? 0) === 0) gone.add(key)
      }
    }
    this.until = Math.max(this.until, deadline(sent, Number(lease.TTL) * 1000))
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
