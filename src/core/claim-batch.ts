/**
 * Several claims as one request to the store: each is in the local queue of its own name, and all are requested in
 * one step, if the driver supports that. Nobody waits in the store while holding only some of them, so no ring of
 * waiters can form over them.
 *
 * ```
 *   join, join, join ──► send ──► the driver: a grant for each, or none
 *        └─ one could not join (busy here, held here, refused) ──► cancel: none, and nothing is sent
 * ```
 */
import type { Claim, Driver, Grant, Wait, WaitStatus } from './driver.js'

export class ClaimBatch {
  /** The batch begins a wait; false: it is a single attempt of the caller. */
  readonly waits: boolean
  /** How long the store has to reply, in ms. */
  readonly longest: number
  /** Did the store reply? False when the batch was cancelled, or when the request failed. */
  answered = false
  /** What the driver reported of the lock that is not free. */
  refusedBy: WaitStatus | undefined
  readonly #claims: Claim[] = []
  readonly #waits: Wait[] = []
  readonly #start: Promise<readonly Grant[] | undefined>
  #settle: (grants: Promise<readonly Grant[] | undefined> | undefined) => void = () => {}

  /** @param wait how long the caller is willing to wait, in ms; 0: a single attempt */
  constructor(wait: number) {
    this.waits = wait > 0
    // If the store hangs, the other half is left for acquiring them in order, which reports why.
    this.longest = this.waits ? wait / 2 : Number.POSITIVE_INFINITY
    this.#start = new Promise((resolve) => {
      this.#settle = resolve
    })
  }

  get size(): number {
    return this.#claims.length
  }

  /** Called by the local queue of a name; resolves with the grant of that name. */
  async add(claim: Claim, wait: Wait): Promise<Grant | undefined> {
    const place = this.#claims.push(claim) - 1
    this.#waits.push(wait)
    return (await this.#start)?.[place]
  }

  send(driver: Driver): void {
    const asked = driver.acquireMany?.(
      this.#claims,
      combineWaits(this.#waits, (by) => {
        this.refusedBy = by
      }),
    )
    this.#settle(
      asked?.then((grants) => {
        this.answered = true
        return grants
      }),
    )
  }

  cancel(): void {
    this.#settle(undefined)
  }
}

/** A single attempt that is over as soon as one of its parts is. */
function combineWaits(waits: readonly Wait[], report: (by: WaitStatus) => void): Wait {
  let signal: AbortSignal | undefined
  return {
    get signal() {
      signal ??= AbortSignal.any(waits.map((wait) => wait.signal))
      return signal
    },
    get ended() {
      return waits.some((wait) => wait.ended)
    },
    remaining: () => 0,
    report,
  }
}
