/** Options for ioredis other than addresses. Does not load ioredis. */
import type { RedisAddress } from './redis-place.js'
import { type Keys, readKeys } from './tls.js'

interface Each {
  readonly username?: string
  readonly password?: string
  readonly tls?: Keys
  readonly maxRetriesPerRequest: number
}

/** Options that apply to every node. */
export function eachNode({ login, tls }: RedisAddress, maxRetriesPerRequest: number): Each {
  return { ...login, ...(tls && { tls: readKeys(tls) }), maxRetriesPerRequest }
}

export function sentinelTls({ tls }: RedisAddress): {
  sentinelTLS?: Keys
  enableTLSForSentinelMode?: boolean
} {
  return tls === undefined ? {} : { sentinelTLS: readKeys(tls), enableTLSForSentinelMode: true }
}

type Lookup = (address: string, callback: (error: null, address: string) => void) => void

/** Certificates name hosts, so node names of a Cluster are not resolved to addresses first. */
export function clusterTls({ tls }: RedisAddress): { dnsLookup?: Lookup } {
  return tls === undefined ? {} : { dnsLookup: (address, callback) => callback(null, address) }
}
