/** What this process knows of a name without querying the store: for error messages, `health()` and token checks. */
import type { Holder } from './driver.js'
import type { LocalQueue } from './local-queue.js'

/** Holds, doubtful holds and requests of this process. */
export function countLocal({ state }: LocalQueue): { held: number; doubtful: number; waiting: number } {
  let doubtful = 0
  for (const hold of state.holds) if (hold.state() === 'doubtful') doubtful++
  let waiting = state.queue.size
  for (const { owner } of state.asking) if (owner !== undefined) waiting++
  return { held: state.holds.size, doubtful, waiting }
}

/** The holder in this process. */
export function localHolder({ engine, state }: LocalQueue): Holder | undefined {
  const hold = state.holds.first ?? state.heldBack
  if (hold === undefined) return undefined
  const { claim } = hold.watchdog
  return {
    attempt: claim.attempt,
    mode: hold.mode,
    token: hold.token,
    heldFor: engine.clock.now() - hold.since,
    expiresIn: hold.watchdog.remaining,
    client: `${engine.env.client} (this process)`,
    ...(hold.note === undefined ? {} : { note: hold.note }),
  }
}

/** The token in use of the grant of `attempt`, 0 while it is cached; undefined: the grant is not in this process. */
export function localToken({ state }: LocalQueue, attempt: string): number | undefined {
  for (const hold of state.holds)
    if (hold.watchdog.claim.attempt === attempt) return hold.state() === 'lost' ? 0 : hold.token
  return state.heldBack?.watchdog.claim.attempt === attempt ? 0 : undefined
}
