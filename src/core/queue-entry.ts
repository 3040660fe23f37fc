/** A request as the local queue sees it. */
import type { ClaimBatch } from './claim-batch.js'
import type { WaitStatus } from './driver.js'
import type { Hold } from './hold.js'
import type { Mode } from './mode.js'
import type { Terms } from './options.js'
import type { WaitDeadline } from './wait-deadline.js'

export interface QueueEntry {
  readonly mode: Mode
  readonly terms: Terms
  readonly deadline: WaitDeadline
  /** Clock reading of the call. */
  readonly asked: number
  /** The number that its events carry. */
  readonly acquisition: number
  /** The batch in which its claim goes to the store. */
  readonly batch?: ClaimBatch | undefined
  /** `undefined`: the lock was not free for a single attempt. */
  granted(hold: Hold | undefined): void
  failed(error: unknown): void
  /** The store reported what blocks the request. */
  blocked(by: WaitStatus): void
}
