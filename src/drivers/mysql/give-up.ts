/** How what may have been taken is given back, when nobody waits for it any more. */
import type { Desk } from './desk.js'

/**
 * Carries out `end` until it was answered, or what it ends has run out.
 * @param doubtful a statement is unanswered: the server will not answer this one sooner, and that one may still be on its way. So this
 *   happens in the background, and once more when that one is void.
 */
export function giveUp(desk: Desk, end: () => Promise<void>, ttl: number, doubtful: boolean): Promise<void> {
  const { clock, settings } = desk
  const until = clock.now() + Math.max(ttl, settings.commandTimeout)
  const again = () => {
    if (clock.now() < until) desk.later(250, () => desk.behind(end().catch(again)))
  }
  if (!doubtful) return end().catch(again)
  desk.behind(end().catch(again))
  desk.later(settings.commandTimeout + 500, () => desk.behind(end().catch(again)))
  return Promise.resolve()
}
