/** Who holds the lock at the end of a wait, for the error: the store is queried once for all waits that end together. */
import type { Holder } from './driver.js'
import { BackendError } from './errors.js'
import type { LocalQueue } from './local-queue.js'
import { withTimeout } from './with-timeout.js'

/** What the store reported. */
export interface FinalInspection {
  /** Did it reply? */
  readonly answered: boolean
  readonly holder?: Holder | undefined
  /** Why it did not. */
  readonly error?: BackendError
}

/** Longest time to query the present holder, in ms; the error comes later by that time. */
const inspectTimeout = 2_000

export function inspectOnce(queue: LocalQueue): Promise<FinalInspection> {
  queue.inspection ??= withTimeout(queue.engine, inspectTimeout, inspect(queue), (seen) => {
    queue.inspection = undefined
    return seen ?? { answered: false }
  })
  return queue.inspection
}

async function inspect({ engine, name }: LocalQueue): Promise<FinalInspection> {
  try {
    const { holders } = await engine.driver.inspect(name)
    return { answered: true, holder: holders.find(({ expiresIn }) => expiresIn > 0) }
  } catch (error) {
    return error instanceof BackendError ? { answered: !error.unanswered, error } : { answered: true }
  }
}
