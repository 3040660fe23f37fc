/** A driver that refuses a `--ttl` names its own option; whoever typed a URL needs the setting in that. */
import { formatDuration } from '../duration.js'
import { badInput } from '../exit.js'
import { maxTtlInUrl } from '../redis-place.js'
import { notStarted, type RunRequest } from './messages.js'

/** Other errors as they are. */
export function withSetting(error: unknown, claim: RunRequest): unknown {
  if (!(error instanceof RangeError)) return error
  const [, asked, most] = /\bttl (?:of )?(\d+)\b.*\bmaxTtl (\d+)/.exec(error.message) ?? []
  if (asked === undefined) return error
  const long = `--ttl ${formatDuration(claim.ttl)} is longer than maxTtl, ${formatDuration(Number(most))}; use a shorter one`
  const setting = `, or set ?maxTtl=${asked} in the URL, and as much in every program that uses these locks`
  return badInput(`${long}${Number(asked) > maxTtlInUrl ? '' : setting}${notStarted(claim)}`)
}
