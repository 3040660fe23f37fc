/** Options for ioredis other than addresses. Does not load ioredis. */
import type { RedisPlace } from './redis-place.js'
import { type Keys, keysOf } from './tls.js'

interface Each {
  readonly username?: string
  readonly password?: string
  readonly tls?: Keys
  readonly maxRetriesPerRequest: number
}

/** Options that apply to every node. */
export function eachNode({ login, tls }: RedisPlace, maxRetriesPerRequest: number): Each {
  return { ...login, ...(tls && { tls: keysOf(tls) }), maxRetriesPerRequest }
}

export function sentinelTls({ tls }: RedisPlace): { sentinelTLS?: Keys; enableTLSForSentinelMode?: boolean } {
  return tls === undefined ? {} : { sentinelTLS: keysOf(tls), enableTLSForSentinelMode: true }
}

type Lookup = (address: string, callback: (error: null, address: string) => void) => void

/** Certificates name hosts, so node names of a Cluster are not resolved to addresses first. */
export function clusterTls({ tls }: RedisPlace): { dnsLookup?: Lookup } {
  return tls === undefined ? {} : { dnsLookup: (address, callback) => callback(null, address) }
}
