/** What a leader keeps: a lease with a value that everybody can read. */

import type { Cell } from '../core/cell.js'
import type { CellRef } from '../core/cell-ref.js'
import type { Duration } from '../core/duration.js'
import { BackendError, LeaseLostError } from '../core/errors.js'
import type { HeldLease, Lease, LeaseState, ReleaseOutcome } from '../core/lease.js'
import { quote } from '../core/name.js'
import { type Deadline, readOnce, withDeadline } from '../core/with-deadline.js'
import { type IsPresent, isFollowedBy } from './hand-over.js'
import { checkCandidate, checkValue, type LeaderRecord, parseLeaderRecord } from './leader-record.js'
import { whileHeld } from './while-held.js'

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
   * ttl at most; where the driver is fair, only until the store has listed the candidate neither as waiting nor as the
   * holder for a second. A `proclaim` called before is carried out first, one called after is rejected.
   * @throws LeaseLostError when this term has ended; BackendError, and goes on leading, when the store does not list all
   * that are waiting, and that candidate is none of those listed
   */
  handOver(candidate: string): Promise<boolean>
}

/** How long stepping down tries to remove the value, in ms: if it is not removed, observers learn of it only from the next leader. */
const resignTimeout = 2_000

export class LeaderTerm implements Term {
  readonly lease: HeldLease
  readonly #cellRef: CellRef
  readonly #isPresent: IsPresent
  /** Settles once the changes of the record requested so far are done: each builds on the one before. */
  #publishing: Promise<unknown> = Promise.resolve()
  #record: LeaderRecord
  #resigned: Promise<ReleaseOutcome> | undefined

  constructor(lease: HeldLease, cellRef: CellRef, office: LeaderRecord, isPresent: IsPresent) {
    this.lease = lease
    this.#cellRef = cellRef
    this.#record = office
    this.#isPresent = isPresent
  }

  /** Publishes the office, once. @throws as `proclaim`; the reason of `signal` */
  async publishRecord(signal?: AbortSignal): Promise<void> {
    await this.#publish({}, signal)
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
    checkValue(value)
    await this.#inTurn(() => this.#publish({ value }))
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
    checkCandidate(candidate)
    this.#assertLeading()
    const { engine } = this.#cellRef
    const present = await readOnce(engine, this.name, (bounds) =>
      this.#isPresent(candidate, this.#record.attempt, bounds),
    )
    if (present === undefined) throw this.#unlisted(candidate)
    if (!present) return false
    await this.#inTurn(async () => {
      await this.#publish({ next: candidate })
      this.#resigned = this.lease.release()
      await this.#resigned
    })
    const wait = this.lease.hold.watchdog.ttl
    const former = { ...this.#record, cellRef: this.#cellRef, isPresent: this.#isPresent }
    const followed = (bounds: Deadline) => isFollowedBy(candidate, former, bounds)
    return (await withDeadline(engine, { wait, patient: true }, followed)) === true
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

  /** @throws LeaseLostError */
  #assertLeading(): void {
    this.lease.assertHeld()
    if (this.#resigned !== undefined) throw this.lease.hold.lostError()
  }

  #inTurn(change: () => Promise<void>): Promise<void> {
    const done = this.#publishing.then(change)
    this.#publishing = done.catch(() => undefined)
    return done
  }

  async #publish(change: Partial<LeaderRecord>, signal?: AbortSignal): Promise<void> {
    this.#assertLeading()
    const office = { ...this.#record, ...change }
    const replacement = { value: JSON.stringify(office), keep: Number.POSITIVE_INFINITY }
    const newer = (cell: Cell | undefined) => (parseLeaderRecord(cell)?.token ?? 0) > this.token
    // A leader that steps down meanwhile removes the record, or names a successor in it.
    const decide = (cell: Cell | undefined) =>
      newer(cell) || this.#resigned !== undefined ? undefined : replacement
    const update = (bounds: Deadline) => this.#cellRef.update(decide, bounds)
    const done = await whileHeld(this.#cellRef.engine, this.lease, update, signal)
    if (newer(done)) throw new LeaseLostError(this.name, this.token, 'taken')
    if (done?.value !== replacement.value) throw this.lease.hold.lostError()
    this.#record = office
  }

  #unlisted(candidate: string): BackendError {
    return new BackendError(
      this.#cellRef.engine.driver.name,
      `${quote(candidate)} is not among the candidates for ${quote(this.name)} that the store lists, and more are waiting than it lists: this process goes on leading; hand over to a candidate that has waited longer`,
    )
  }
}
