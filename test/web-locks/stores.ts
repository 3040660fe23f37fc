// Where the clauses of the specification are tested: each store with as many clients as a test wants.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createLocks, type Locks } from 'holdfast'
import { local } from 'holdfast/local'
import { memory } from 'holdfast/memory'
import { redis } from 'holdfast/redis'
import { Redis } from 'ioredis'
import { startRedis } from '../support/servers/redis.js'

/** Three renewals a second: who is stolen from in another process hears of it with the next one. */
export const ttl = 1500

export interface Store extends AsyncDisposable {
  /** A client of its own, as another process would have it. */
  client(): Locks
}

export const stores: Readonly<Record<string, () => Promise<Store>>> = {
  async memory() {
    const driver = memory()
    return closing(() => createLocks(driver, { ttl }))
  },
  async local() {
    const directory = mkdtempSync(join(tmpdir(), 'holdfast-web-locks-'))
    return closing(
      () => createLocks(local({ directory }), { ttl }),
      () => rmSync(directory, { recursive: true, force: true }),
    )
  },
  async redis() {
    const server = await startRedis()
    const clients: Redis[] = []
    return closing(
      () => {
        const client = new Redis(server.url)
        clients.push(client)
        return createLocks(redis({ client }), { ttl })
      },
      async () => {
        for (const client of clients) client.disconnect()
        await server.stop()
      },
    )
  },
}

function closing(make: () => Locks, last: () => unknown = () => undefined): Store {
  const made: Locks[] = []
  return {
    client() {
      const locks = make()
      made.push(locks)
      return locks
    },
    async [Symbol.asyncDispose]() {
      for (const locks of made.reverse()) await locks.close()
      await last()
    },
  }
}
