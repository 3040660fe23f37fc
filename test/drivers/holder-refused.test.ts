// What a holder is told when nothing listens at the store's address any more: the same on every driver.
// Second tier because it starts every server; the conformance suite has outages of each store for every change.
import assert from 'node:assert/strict'
import { after, type TestContext, test } from 'node:test'
import * as grpc from '@grpc/grpc-js'
import { Redis } from 'ioredis'
import mysql2 from 'mysql2/promise'
import pg from 'pg'
import { createClient } from 'redis'
import { BackendError } from '../../src/core/errors.js'
import { createLocks } from '../../src/create-locks.js'
import { consul } from '../../src/drivers/consul/index.js'
import { etcd } from '../../src/drivers/etcd/index.js'
import { mysql } from '../../src/drivers/mysql/index.js'
import { postgres } from '../../src/drivers/postgres/index.js'
import { redis } from '../../src/drivers/redis/index.js'
import { leakCheck } from '../support/leaks.js'
import { startProxy } from '../support/proxy.js'
import { startConsul } from '../support/servers/consul.js'
import { startEtcd } from '../support/servers/etcd.js'
import { startMysql } from '../support/servers/mysql.js'
import { startPostgres } from '../support/servers/postgres.js'
import { startRedis } from '../support/servers/redis.js'
import { until } from '../support/until.js'

after(leakCheck)

const host = '127.0.0.1'
type Driver = Parameters<typeof createLocks>[0]
type Store = readonly [driver: Driver, end: () => unknown]

interface Server {
  readonly port: number
  stop(): Promise<void>
}

function listening<C extends { on(event: 'error', listener: () => void): unknown }>(client: C): C {
  client.on('error', () => undefined)
  return client
}

const stores: Readonly<Record<string, readonly [() => Promise<Server>, (port: number) => Store]>> = {
  ioredis: [
    startRedis,
    (port) => {
      const client = listening(new Redis(port, host))
      return [redis({ client }), () => client.disconnect()]
    },
  ],
  'node-redis': [
    startRedis,
    (port) => {
      const client = listening(createClient({ socket: { host, port } }))
      client.connect().catch(() => undefined)
      return [redis({ client }), () => client.destroy()]
    },
  ],
  mysql2: [
    startMysql,
    (port) => {
      const pool = mysql2.createPool({ host, port, user: 'root', database: 'holdfast' })
      return [mysql({ pool }), () => pool.end()]
    },
  ],
  pg: [
    startPostgres,
    (port) => {
      const pool = listening(new pg.Pool({ host, port, user: 'postgres', database: 'postgres' }))
      return [postgres({ pool }), () => pool.end()]
    },
  ],
  etcd: [startEtcd, (port) => [etcd({ endpoints: [`http://${host}:${port}`] }), () => undefined]],
  'etcd over gRPC': [
    startEtcd,
    (port) => [etcd({ endpoints: [`http://${host}:${port}`], grpc }), () => undefined],
  ],
  consul: [
    startConsul,
    (port) => [consul({ url: `http://${host}:${port}`, minTtl: 1_000 }), () => undefined],
  ],
}

/** A client of a server that refuses every connection once `refuse` was called. */
async function reached(t: TestContext, [start, make]: (typeof stores)[string]) {
  const server = await start()
  const proxy = await startProxy({ port: server.port })
  const [driver, end] = make(proxy.port)
  const locks = createLocks(driver)
  t.after(async () => {
    await locks.close()
    await end()
    await proxy.stop()
    await server.stop()
  })
  const refuse = () => {
    proxy.refuse()
    proxy.reset()
  }
  return { locks, refuse, address: `${host}:${proxy.port}` }
}

for (const [name, store] of Object.entries(stores))
  test(`${name}: a holder is told UNAVAILABLE and how long it was tried, and where it retried, ECONNREFUSED and the address`, async (t) => {
    const { locks, refuse, address } = await reached(t, store)
    const ttl = 5_000
    const lease = await locks.mutex('held').acquire({ ttl })
    const term = await locks.election('led').campaign('before', { ttl })
    refuse()
    // One request alone may only see how its connection ends. One that joins a renewal that was answered before sees nothing.
    const extended = await until(() =>
      lease.extend().then(
        () => undefined,
        (error: unknown) => error,
      ),
    )
    assert.ok(extended instanceof BackendError, `extend: ${extended}`)
    assert.equal(extended.code, 'UNAVAILABLE', `extend: ${extended}`)
    assert.ok((extended.tried ?? -1) >= 0, `extend: tried ${extended.tried}`)
    const asked = performance.now()
    const error = await term.proclaim('after').catch((error: unknown) => error)
    const took = performance.now() - asked
    assert.ok(error instanceof BackendError, `proclaim: ${error}`)
    const { code, reason, tried = -1 } = error
    const told = [code, reason, error.address]
    assert.deepEqual(told, ['UNAVAILABLE', 'ECONNREFUSED', address], `proclaim: ${error}`)
    assert.ok(tried > 0 && tried <= took + 1, `proclaim: tried ${tried} ms of ${took}`)
  })
