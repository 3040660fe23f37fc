/** Does the driver currently grant free locks on this server? Not while the server may have forgotten locks. */
import { formatDuration } from '../duration.js'
import type { RedisPlace } from '../redis-place.js'
import { type Check, weak } from './check.js'
import type { NodeFacts } from './redis-ask.js'

type Info = ReadonlyMap<string, string>

/** The drivers' default, in ms. */
export function maxTtlOf({ is, options }: RedisPlace): number {
  return options.maxTtl ?? (is === 'redlock' ? 60_000 : 30_000)
}

/** Are free locks currently refused? */
export function quarantineChecks(
  { marker }: NodeFacts,
  info: Info,
  place: RedisPlace,
  keepsAll: boolean,
): Check[] {
  const { is, options } = place
  if (is === 'redlock' || is === 'cluster' || options.quarantine === 'off' || marker === 'new') return []
  const up = 1_000 * Number(info.get('uptime_in_seconds') ?? 0)
  const since = isPromoted(info) ? 0 : up
  // Plus one second: the server reports its uptime in whole seconds.
  const young = Math.max(0, maxTtlOf(place) + 1_000 - since)
  const left = standing({ marker, options, info, keepsAll, young })
  if (left <= 0) return []
  const found = `up for ${up < 1_000 ? 'less than 1s' : formatDuration(up)}, and may have forgotten locks that it knew`
  const means = `safe; free locks are refused for ${formatDuration(left)} more`
  const fresh = `; if it never had any locks: redis-cli SET ${options.prefix ?? 'hf:'}boot new`
  return [weak('quarantine', found, means, `wait${marker === undefined ? fresh : ''}`)]
}

interface Now {
  readonly marker: Exclude<NodeFacts['marker'], 'new'>
  readonly options: RedisPlace['options']
  readonly info: Info
  readonly keepsAll: boolean
  /** The rest of the time after the start or the promotion, in ms. */
  readonly young: number
}

/** How long free locks are refused from now on, in ms; computed as in `src/drivers/redis/scripts/server-marker.ts`. */
function standing({ marker, options, info, keepsAll, young }: Now): number {
  if (marker === undefined) return (options.quarantine ?? 'strict') === 'strict' ? young : 0
  const history = isPromoted(info) ? (info.get('master_replid') ?? '').slice(0, 8) : ''
  const same = marker.boot === (info.get('run_id') ?? '').slice(0, 16) + history
  return same || (marker.sure && keepsAll) ? marker.barredFor : Math.max(young, marker.barredFor)
}

/** It was a replica at some point in this life. */
const isPromoted = (info: Info): boolean => /[1-9a-f]/.test(info.get('master_replid2') ?? '')
