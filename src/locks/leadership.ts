/** What a leader keeps: a lease with a value that everybody can read. */

import type { Cell } from '../core/cell.js'
import type { CellRef } from '../core/cell-ref.js'
import type { Duration } from '../core/duration.js'
import { LeaseLostError } from '../core/errors.js'
import type { HeldLease, Lease, LeaseState, ReleaseOutcome } from '../core/lease.js'
import { TimedOut, withDeadline } from '../core/with-deadline.js'
import { whileHeld } from './while-held.js'

/** The leader, as everybody sees it. */
export interface Leader {
  /** The value that the leader proclaimed last. */
  readonly value: string
  /** The token of its lease: grows with every term. */
  readonly token: number
  /** The name it campaigned under. */
  readonly candidate: string
  /** Its process: `host:pid`. */
  readonly client: string
}

/** The value of the cell, as JSON. */
export interface LeaderRecord extends Omit<Leader, 'client'> {
  /** {@link Leader.client}. */
  readonly by: string
  /** Its hold in the store, which shows whether it still leads. */
  readonly attempt: string
  /** The successor. */
  readonly next?: string
}

/** A lease with an office. Leading ends with the lease: when in doubt this process steps down before another can become leader. */
export interface Term extends Lease {
  readonly candidate: string
  /** The value proclaimed last. */
  readonly value: string
  /**
   * Publishes a new value. @throws LeaseLostError when this process is not the leader any more; BackendError with code
   * `UNAVAILABLE` when the store did not reply before the lease ran out; RangeError when the value is too long
   */
  proclaim(value: string): Promise<void>
  /** The same as `release`: steps down; never rejects. */
  resign(): Promise<ReleaseOutcome>
  /**
   * Steps down for the candidate of that name, whatever its position in the queue. Resolves with `false`, and goes on
   * leading, when that candidate is not campaigning; else with whether it is the next leader. Waits for that for one
   * ttl at most.
   * @throws LeaseLostError when this term has ended
   */
  handOver(candidate: string): Promise<boolean>
}

/** How long stepping down tries to remove the value, in ms: if it is not removed, observers learn of it only from the next leader. */
const resignTimeout = 2_000

export function parseLeaderRecord(cell: Cell | undefined): LeaderRecord | undefined {
  return cell === undefined ? undefined : (JSON.parse(cell.value) as LeaderRecord)
}

export class LeaderTerm implements Term {
  readonly lease: HeldLease
  readonly #cellRef: CellRef
  readonly #campaigns: (candidate: string) => Promise<boolean>
  #record: LeaderRecord
  #resigned: Promise<ReleaseOutcome> | undefined

  /** @param campaigns is a candidate of that name queued? */
  constructor(
    lease: HeldLease,
    cellRef: CellRef,
    office: LeaderRecord,
    campaigns: (candidate: string) => Promise<boolean>,
  ) {
    this.lease = lease
    this.#cellRef = cellRef
    this.#record = office
    this.#campaigns = campaigns
  }

  /** Publishes the office, once. @throws as `proclaim` */
  async publishRecord(): Promise<void> {
    await this.#publish(this.#record)
  }

  get name(): string {
    return this.lease.name
  }
  get token(): number {
    return this.lease.token
  }
  get state(): LeaseState {
    return this.lease.state
  }
  get signal(): AbortSignal {
    return this.lease.signal
  }
  get isHeld(): boolean {
    return this.lease.isHeld
  }
  get holdCount(): number {
    return this.lease.holdCount
  }
  get ttl(): number {
    return this.lease.ttl
  }
  get candidate(): string {
    return this.#record.candidate
  }
  get value(): string {
    return this.#record.value
  }
  remaining(): number {
    return this.lease.remaining()
  }
  assertHeld(minMs?: Duration): void {
    this.lease.assertHeld(minMs)
  }
  extend(ttl?: Duration): Promise<number> {
    return this.lease.extend(ttl)
  }

  async proclaim(value: string): Promise<void> {
    if (typeof value !== 'string') throw new TypeError(`a leader proclaims a string, got ${typeof value}`)
    await this.#publish({ ...this.#record, value })
  }

  release(): Promise<ReleaseOutcome> {
    if (this.#resigned !== undefined)
      return this.#resigned.then((first) => (first === 'lost' ? first : 'already-released'))
    this.#resigned = this.#leave()
    return this.#resigned
  }

  resign(): Promise<ReleaseOutcome> {
    return this.release()
  }

  async handOver(candidate: string): Promise<boolean> {
    this.lease.assertHeld()
    if (this.#resigned !== undefined) throw this.lease.hold.lostError()
    if (!(await this.#campaigns(candidate))) return false
    await this.#publish({ ...this.#record, next: candidate })
    this.#resigned = this.lease.release()
    await this.#resigned
    const wait = this.lease.hold.watchdog.ttl
    const next = await withDeadline(this.#cellRef.engine, { wait }, (bounds) =>
      this.#cellRef.waitUntil((cell) => {
        const office = parseLeaderRecord(cell)
        return office !== undefined && office.token > this.token ? office : undefined
      }, bounds),
    )
    return next !== undefined && !(next instanceof TimedOut) && next.candidate === candidate
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release()
  }

  async #leave(): Promise<ReleaseOutcome> {
    const wait = Math.min(this.lease.remaining(), resignTimeout)
    if (wait > 1) {
      const mine = (cell: Cell | undefined) => parseLeaderRecord(cell)?.token === this.token
      const gone = { value: undefined, keep: 0 }
      await withDeadline(this.#cellRef.engine, { wait }, (bounds) =>
        this.#cellRef.update((cell) => (mine(cell) ? gone : undefined), bounds),
      ).catch(() => undefined)
    }
    return this.lease.release()
  }

  async #publish(office: LeaderRecord): Promise<void> {
    this.lease.assertHeld()
    const replacement = { value: JSON.stringify(office), keep: Number.POSITIVE_INFINITY }
    const newer = (cell: Cell | undefined) => (parseLeaderRecord(cell)?.token ?? 0) > this.token
    const done = await whileHeld(this.#cellRef.engine, this.lease, (bounds) =>
      this.#cellRef.update((cell) => (newer(cell) ? undefined : replacement), bounds),
    )
    if (parseLeaderRecord(done)?.token !== this.token)
      throw new LeaseLostError(this.name, this.token, 'taken')
    this.#record = office
  }
}
