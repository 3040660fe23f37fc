/**
 * When the journal is damaged, a hold may be missing from it. Its client then learns from the new broker that it has lost, unless it is cut off or
 * stopped: so until the longest ttl has passed, every name counts as held by somebody unknown, beside those who are known to hold it.
 * Waiters are queued, and are granted after that. An operator may end an unknown hold as any other.
 */
import { exclusive } from '../../core/mode.js'
import type { Hold } from '../memory/table.js'
import type { JournalState, Quarantine } from './journal-lines.js'
import type { ProcessIdentity } from './processes.js'

/** The shortest quarantine after damage, in ms: the default ttl, for where too much is damaged to tell the longest. */
const minLength = 30_000

/** The attempt of every unknown hold. */
export const unknownAttempt = 'unknown'

/** @param uptime milliseconds since the machine was started */
export function quarantineAfter(
  { boot, damage, longest, quarantine: before }: JournalState,
  here: ProcessIdentity,
  uptime: number,
): Quarantine | undefined {
  // Every holder of an earlier boot is gone.
  if (boot !== '' && here.boot !== '' && boot !== here.boot) return undefined
  // Where boots have no ids, it may be of an earlier one.
  const left = before === undefined ? 0 : Math.min(before.until - uptime, before.ttl)
  const ttl = Math.max(longest, minLength)
  if (damage !== undefined) {
    const why = `${damage} of the journal was damaged`
    return { until: uptime + Math.max(ttl, left), ttl: Math.max(ttl, left), why }
  }
  return before !== undefined && left > 0 ? { ...before, until: uptime + left } : undefined
}

/** @param expires when the quarantine ends, by the broker's clock @param token the greatest token of that name so far */
export function unknownHold({ ttl, why }: Quarantine, expires: number, token: number): Hold {
  return {
    attempt: unknownAttempt,
    mode: exclusive,
    ttl,
    token,
    upTo: token,
    since: expires - ttl,
    expires,
    note: `${why}, so another process may hold it`,
    client: 'unknown',
  }
}
