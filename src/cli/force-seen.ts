/** Takes a lock from the holders that an operator saw. */
import type { Locks } from 'holdfast'

/**
 * Looks again right before the force: between the operator's look and the answer to the question lie seconds in which others may have come. Who
 * comes between this look and the force, one round trip, is ended too.
 *
 * @param seen attempts of the holders it is meant for
 * @returns how many holds it ended; undefined: others hold it now, and nothing was done
 */
export async function forceSeen(
  locks: Locks,
  name: string,
  seen: readonly string[],
): Promise<number | undefined> {
  const { holders } = await locks.inspect(name)
  if (holders.some(({ attempt }) => !seen.includes(attempt))) return undefined
  return holders.length === 0 ? 0 : await locks.forceRelease(name)
}
