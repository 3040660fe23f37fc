// Where the clauses of the specification are tested: each store with as many clients as a test wants.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createLocks } from 'holdfast'
import { consul } from 'holdfast/consul'
import { etcd } from 'holdfast/etcd'
import { local } from 'holdfast/local'
import { memory } from 'holdfast/memory'
import { mysql } from 'holdfast/mysql'
import { postgres } from 'holdfast/postgres'
import { redis } from 'holdfast/redis'
import type { LocksOfAnyDriver } from 'holdfast/web-locks'
import { zookeeper } from 'holdfast/zookeeper'
import { Redis } from 'ioredis'
import { createPool } from 'mysql2/promise'
import { Pool } from 'pg'
import { startConsul } from '../support/servers/consul.js'
import { startEtcd } from '../support/servers/etcd.js'
import { startMysql } from '../support/servers/mysql.js'
import { startPostgres } from '../support/servers/postgres.js'
import { startRedis } from '../support/servers/redis.js'
import { startZookeeper } from '../support/servers/zookeeper.js'

/** Of any driver, whatever it can. */
export interface Client extends LocksOfAnyDriver {
  close(): Promise<void>
}

export interface Store extends AsyncDisposable {
  /** A client of its own, as another process would have it. */
  client(): Client
}

export const stores: Readonly<Record<string, () => Promise<Store>>> = {
  async memory() {
    const driver = memory()
    return closing(() => createLocks(driver))
  },
  async local() {
    const directory = mkdtempSync(join(tmpdir(), 'holdfast-web-locks-'))
    return closing(
      () => createLocks(local({ directory })),
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
        return createLocks(redis({ client }))
      },
      async () => {
        for (const client of clients) client.disconnect()
        await server.stop()
      },
    )
  },
}

/** The clauses hold there too; these take longer to start. */
export const moreStores: Readonly<Record<string, () => Promise<Store>>> = {
  async mysql() {
    const server = await startMysql({ flavour: 'mysql' })
    const pool = createPool({ uri: server.url, connectionLimit: 10 })
    return closing(
      () => createLocks(mysql({ pool })),
      async () => {
        await pool.end()
        await server.stop()
      },
    )
  },
  async postgres() {
    const server = await startPostgres()
    const pool = new Pool({ connectionString: server.url })
    return closing(
      () => createLocks(postgres({ pool })),
      async () => {
        await pool.end()
        await server.stop()
      },
    )
  },
  async etcd() {
    const server = await startEtcd()
    return closing(
      () => createLocks(etcd({ endpoints: [server.url] })),
      () => server.stop(),
    )
  },
  async consul() {
    const server = await startConsul()
    return closing(
      () => createLocks(consul({ url: server.url, minTtl: 1000 })),
      () => server.stop(),
    )
  },
  async zookeeper() {
    const server = await startZookeeper()
    return closing(
      () => createLocks(zookeeper({ servers: server.address, sessionTimeout: 5000, tickTime: 500 })),
      () => server.stop(),
    )
  },
}

function closing(make: () => Client, last: () => unknown = () => undefined): Store {
  const made: Client[] = []
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
