// A process of its own that takes locks with `linger`. See `caching-process.ts`.
import { Redis } from 'ioredis'
import { local } from '../../../src/drivers/local/index.js'
import { redis } from '../../../src/drivers/redis/index.js'
import { createLocks, type DriverFactory, type Lease } from '../../../src/index.js'
import type { Order, Store } from './caching-process.js'

const store: Store = JSON.parse(process.argv[2] ?? '')
const locks = createLocks(driver(store))
const leases = new Map<string, Lease>()

function driver(store: Store): DriverFactory {
  if ('directory' in store) return local(store)
  const client = new Redis(store.port, '127.0.0.1')
  client.on('error', () => undefined)
  return redis({ client, maxTtl: 600_000 })
}

/** Resolves with the token, 0 if there is none. */
async function obey({ do: what, name, options }: Order): Promise<number> {
  if (what === 'release') {
    await leases.get(name)?.release()
    return 0
  }
  const lock = locks.mutex(name)
  const lease = what === 'try' ? await lock.tryAcquire(options) : await lock.acquire(options)
  if (lease !== undefined) leases.set(name, lease)
  return lease?.token ?? 0
}

process.on('disconnect', () => process.exit())
process.on('message', async (order: Order) => {
  try {
    process.send?.({ id: order.id, token: await obey(order) })
  } catch (error) {
    process.send?.({ id: order.id, error: `${error}` })
  }
})
