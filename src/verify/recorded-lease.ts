/** A lease that records its release. */
import type { Duration, Lease, LeaseState, MultiLease, ReleaseOutcome } from 'holdfast'
import type { ModeKind } from './event.js'
import type { Journal, Open } from './journal.js'

interface Entered {
  readonly held: Open
  readonly mode: ModeKind
}

export class RecordedLease implements MultiLease {
  readonly inner: Lease
  readonly leases: readonly Lease[]
  readonly #journal: Journal
  readonly #entries: readonly Entered[]
  #left: ((outcome: string) => void)[] | undefined

  constructor(journal: Journal, inner: Lease, leases: readonly Lease[], entries: readonly Entered[]) {
    this.#journal = journal
    this.inner = inner
    this.leases = leases
    this.#entries = entries
  }

  get name(): string {
    return this.inner.name
  }
  get token(): number {
    return this.inner.token
  }
  get ttl(): number {
    return this.inner.ttl
  }
  get state(): LeaseState {
    return this.inner.state
  }
  get signal(): AbortSignal {
    return this.inner.signal
  }
  get isHeld(): boolean {
    return this.inner.isHeld
  }
  get holdCount(): number {
    return this.inner.holdCount
  }
  remaining(): number {
    return this.inner.remaining()
  }
  assertHeld(minMs?: Duration): void {
    this.inner.assertHeld(minMs)
  }
  extend(ttl?: Duration): Promise<number> {
    const answer = this.inner.extend(ttl)
    // A shorter term counts from the call, not from the reply.
    for (const { held } of this.#entries) this.#journal.extended(held)
    return answer
  }

  async release(): Promise<ReleaseOutcome> {
    this.leaving()
    const outcome = await this.inner.release()
    this.left(outcome)
    return outcome
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release()
  }

  /** The id of this acquisition in the history; for several locks taken as one, that of the first. */
  get attempt(): string {
    return this.#entries[0]?.held.attempt ?? ''
  }

  /** Recorded before the request can reach the store. Idempotent. */
  leaving(): void {
    this.#left ??= this.#entries.map(({ held, mode }) => this.#journal.leaving(held, mode))
  }

  left(outcome: string): void {
    for (const tell of this.#left?.splice(0) ?? []) tell(outcome)
  }
}

/** The acquisition id of a recorded lease, for recording accesses under it. @throws TypeError for any other lease */
export function getAttempt(lease: Lease): string {
  if (lease instanceof RecordedLease) return lease.attempt
  throw new TypeError(
    'getAttempt takes a lease of recorded locks; make them with recordLocks(locks, recorder)',
  )
}
