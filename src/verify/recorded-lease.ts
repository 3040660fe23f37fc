/** A lease that writes down when it is left. */
import type { Lease, LeaseState, MultiLease, ReleaseOutcome } from 'holdfast'
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
  assertHeld(minMs?: number): void {
    this.inner.assertHeld(minMs)
  }
  extend(ttl?: number): Promise<number> {
    return this.inner.extend(ttl)
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

  /** The id under which the history tells of this acquisition; of the first, where several locks were taken as one. */
  get attempt(): string {
    return this.#entries[0]?.held.attempt ?? ''
  }

  /** Written before the store can hear of it. Idempotent. */
  leaving(): void {
    this.#left ??= this.#entries.map(({ held, mode }) => this.#journal.leaving(held, mode))
  }

  left(outcome: string): void {
    for (const tell of this.#left?.splice(0) ?? []) tell(outcome)
  }
}

/** The id of a recorded lease's acquisition, to write down what is done under it. @throws TypeError for any other lease */
export function attemptOf(lease: Lease): string {
  if (lease instanceof RecordedLease) return lease.attempt
  throw new TypeError('attemptOf takes a lease of recorded locks; make them with recorded(locks, recorder)')
}
