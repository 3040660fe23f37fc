/** Releases what may have been acquired when nobody waits for it any more. */
import type { Desk } from './runtime.js'

/**
 * Tries `end` until it is answered, or what it ends has expired; once more when the locks are closed, if it was not answered.
 * @param doubtful a statement is unanswered: the server will not answer `end` sooner, and that statement may still be in flight. So `end`
 *   runs in the background, and once more when that statement is void.
 */
export function giveUp(desk: Desk, end: () => Promise<void>, ttl: number, doubtful: boolean): Promise<void> {
  const { clock, ends, settings } = desk
  const until = clock.now() + Math.max(ttl, settings.commandTimeout)
  const tried = ends.try(end, until)
  if (!doubtful) return tried
  ends.later(settings.commandTimeout + 500, end, until)
  return Promise.resolve()
}
