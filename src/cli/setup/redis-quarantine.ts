/** Does the driver currently grant free locks on this server? Not while the server may have forgotten locks. */
import { formatDuration } from '../duration.js'
import type { RedisAddress } from '../redis-place.js'
import { type Check, weak } from './check.js'
import type { NodeFacts } from './redis-ask.js'
import { slotQuarantine } from './redis-slots.js'

type Info = ReadonlyMap<string, string>

/** The drivers' default, in ms. */
export function maxTtlFor({ is, options }: RedisAddress): number {
  return options.maxTtl ?? (is === 'redlock' ? 60_000 : 30_000)
}

/** In a Cluster `detected` does nothing. */
export function quarantineOf({ is, options }: RedisAddress): 'strict' | 'detected' | 'off' {
  if (is === 'redlock') return 'strict'
  const { quarantine = 'strict' } = options
  return is === 'cluster' && quarantine === 'detected' ? 'off' : quarantine
}

/** Are free locks currently refused? */
export function quarantineChecks(
  { marker, slotMarkers }: NodeFacts,
  info: Info,
  address: RedisAddress,
  keepsAll: boolean,
): Check[] {
  const { is, options } = address
  if (is === 'redlock' || quarantineOf(address) === 'off' || marker === 'new') return []
  const up = 1_000 * Number(info.get('uptime_in_seconds') ?? 0)
  // Plus one second: the server reports its uptime in whole seconds.
  const whole = maxTtlFor(address) + 1_000
  if (is === 'cluster') return [slotQuarantine(info, slotMarkers, whole)]
  const left = status({ marker, options, info, keepsAll, whole, young: Math.max(0, whole - up) })
  if (left <= 0) return []
  const found = `up for ${up < 1_000 ? 'less than 1s' : formatDuration(up)}, and may have forgotten locks that it knew`
  const means = `safe; free locks are refused for ${formatDuration(left)} more`
  const fresh = `; if it never had any locks: redis-cli SET ${options.prefix ?? 'hf:'}boot new`
  return [weak('quarantine', found, means, `wait${marker === undefined ? fresh : ''}`)]
}

interface Now {
  readonly marker: Exclude<NodeFacts['marker'], 'new'>
  readonly options: RedisAddress['options']
  readonly info: Info
  readonly keepsAll: boolean
  /** A whole quarantine, in ms. */
  readonly whole: number
  /** The rest of one that began with the server, in ms. */
  readonly young: number
}

/** How long free locks are refused from now on, in ms; computed as in `src/drivers/redis/scripts/server-marker.ts`. */
function status({ marker, options, info, keepsAll, whole, young }: Now): number {
  const promoted = isPromoted(info)
  if (marker === undefined) {
    if ((options.quarantine ?? 'strict') !== 'strict') return 0
    return promoted ? whole : young
  }
  const life = (info.get('run_id') ?? '').slice(0, 16)
  const history = (info.get('master_replid') ?? '').slice(0, 8)
  if (promoted ? marker.boot === life + history : marker.boot.startsWith(life)) return marker.quarantinedFor
  // It may have been promoted, and not say so any more.
  if (promoted || Number(info.get('master_repl_offset') ?? 0) > 0)
    return Math.max(whole, marker.quarantinedFor)
  return marker.sure && keepsAll ? marker.quarantinedFor : Math.max(young, marker.quarantinedFor)
}

/** It was a replica at some point in this life, and says so. */
const isPromoted = (info: Info): boolean => /[1-9a-f]/.test(info.get('master_replid2') ?? '')
