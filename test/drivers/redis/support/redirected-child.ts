// A process that takes and releases one lock through an ioredis Cluster, closes everything, and ends by itself.
import { createLocks } from '../../../../src/create-locks.js'
import { redis } from '../../../../src/drivers/redis/index.js'
import { versionNamed } from './versions.js'

export interface RedirectedTask {
  readonly version: string
  /** A node that is asked first. */
  readonly port: number
  readonly natMap: Readonly<Record<string, { readonly host: string; readonly port: number }>>
  readonly name: string
}

const { version, port, natMap, name } = JSON.parse(process.argv[2] ?? '') as RedirectedTask
const place = { is: 'cluster', ports: [port] } as const
const { client, start, close } = await versionNamed(version).open(place, {}, { natMap })
const locks = createLocks(redis({ client, quarantine: 'off' }))
await start()
const lease = await locks.mutex(name).acquire({ ttl: 30_000, wait: 60_000 })
process.send?.(await lease.release())
await locks.close()
close()
process.disconnect()
