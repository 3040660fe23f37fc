/** Takes a lock from the holders that an operator saw. */
import type { Locks } from 'holdfast'

/**
 * Inspects again right before the forced release: others may have acquired the lock in the seconds between the operator's look and the answer. A
 * holder that comes between this inspection and the release, one round trip later, is ended too.
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
