/** A driver that refuses a `--ttl` names its own option; a user who gave a URL needs the name of the setting in the URL. */
import { formatDuration } from '../duration.js'
import { badInput } from '../exit.js'
import { maxTtlInUrl } from '../redis-place.js'
import { notStarted, type RunRequest } from './messages.js'

/** Returns other errors unchanged. */
export function withSetting(error: unknown, claim: RunRequest): unknown {
  if (!(error instanceof RangeError)) return error
  const { ttl, maxTtl } = error as { readonly ttl?: unknown; readonly maxTtl?: unknown }
  if (typeof ttl !== 'number' || typeof maxTtl !== 'number') return error
  const long = `--ttl ${formatDuration(claim.ttl)} is longer than maxTtl, ${formatDuration(maxTtl)}; use a shorter one`
  const setting = `, or set ?maxTtl=${ttl} in the URL, and as much in every program that uses these locks`
  return badInput(`${long}${ttl > maxTtlInUrl ? '' : setting}${notStarted(claim)}`)
}
