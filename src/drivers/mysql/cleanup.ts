/** Releases what may have been acquired when nobody waits for it any more. */
import type { Runtime } from './runtime.js'

/**
 * Tries `end` until it is answered, or what it ends has expired; once more when the locks are closed, if it was not answered.
 * @param ambiguous a statement is unanswered: the server will not answer `end` sooner, and that statement may still be in flight. So `end`
 *   runs in the background, and once more when that statement is void.
 */
export function cleanUp(
  runtime: Runtime,
  end: () => Promise<void>,
  ttl: number,
  ambiguous: boolean,
): Promise<void> {
  const { clock, cleanups, settings } = runtime
  const until = clock.now() + Math.max(ttl, settings.commandTimeout)
  const tried = cleanups.try(end, until)
  if (!ambiguous) return tried
  cleanups.later(settings.commandTimeout + 500, end, until)
  return Promise.resolve()
}
