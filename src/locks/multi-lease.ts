import type { Duration } from '../core/duration.js'
import { LeaseLostError } from '../core/errors.js'
import type { HeldLease, Lease, LeaseState, ReleaseOutcome } from '../core/lease.js'

/** One lease over several locks. `token` is the greatest; pass each resource the token of the lock that protects it. */
export interface MultiLease extends Lease {
  /** One lease per lock, in the order in which the locks were given. */
  readonly leases: readonly Lease[]
}

const stateSeverity: Record<LeaseState, number> = { held: 0, doubtful: 1, released: 2, lost: 3 }
const outcomeSeverity: Record<ReleaseOutcome, number> = {
  'already-released': 0,
  released: 1,
  unknown: 2,
  lost: 3,
}

export class CompositeLease implements MultiLease {
  readonly name: string
  readonly held: readonly HeldLease[]
  #signal: AbortSignal | undefined
  #released: Promise<ReleaseOutcome> | undefined

  constructor(name: string, held: readonly HeldLease[]) {
    this.name = name
    this.held = held
  }

  get leases(): readonly Lease[] {
    return this.held
  }

  get token(): number {
    return Math.max(...this.held.map((lease) => lease.token))
  }

  /** Of the lease with the shortest ttl. */
  get ttl(): number {
    return Math.min(...this.held.map((lease) => lease.ttl))
  }

  get state(): LeaseState {
    return this.held
      .map((lease) => lease.state)
      .reduce((a, b) => (stateSeverity[b] > stateSeverity[a] ? b : a))
  }

  /** Aborts with the reason of the first lost lease. */
  get signal(): AbortSignal {
    this.#signal ??= AbortSignal.any(this.held.map((lease) => lease.signal))
    return this.#signal
  }

  get isHeld(): boolean {
    return this.held.every((lease) => lease.isHeld)
  }

  get holdCount(): number {
    return Math.min(...this.held.map((lease) => lease.holdCount))
  }

  remaining(): number {
    return Math.min(...this.held.map((lease) => lease.remaining()))
  }

  assertHeld(minMs?: Duration): void {
    for (const lease of this.held) lease.assertHeld(minMs)
  }

  async extend(ttl?: Duration): Promise<number> {
    await Promise.all(this.held.map((lease) => lease.extend(ttl)))
    return this.remaining()
  }

  release(): Promise<ReleaseOutcome> {
    if (this.#released !== undefined)
      return this.#released.then((first) => (first === 'lost' ? first : 'already-released'))
    this.#released = Promise.all(this.held.toReversed().map((lease) => lease.release())).then((outcomes) =>
      outcomes.reduce((a, b) => (outcomeSeverity[b] > outcomeSeverity[a] ? b : a)),
    )
    return this.#released
  }

  lostError(): LeaseLostError {
    const lost = this.held.find((lease) => lease.state === 'lost') ?? this.held[0]
    return lost?.hold.lostError() ?? new LeaseLostError(this.name, this.token, 'taken')
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release()
  }
}
