// The error when nothing listens at the store's address: the same on every driver and client.
// Second tier because it repeats for every driver and client what the suite's outage shows.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { after, before, test } from 'node:test'
import { Cluster, Redis } from 'ioredis'
import { createPool } from 'mariadb'
import mysql2 from 'mysql2/promise'
import pg from 'pg'
import postgresJs from 'postgres'
import { createClient } from 'redis'
import type { BackendError } from '../../src/core/errors.js'
import { createLocks } from '../../src/create-locks.js'
import { consul } from '../../src/drivers/consul/index.js'
import { etcd } from '../../src/drivers/etcd/index.js'
import { mysql } from '../../src/drivers/mysql/index.js'
import { postgres } from '../../src/drivers/postgres/index.js'
import { redis } from '../../src/drivers/redis/index.js'
import { redlock } from '../../src/drivers/redlock/index.js'
import { zookeeper } from '../../src/drivers/zookeeper/index.js'
import { leakCheck } from '../support/leaks.js'

after(leakCheck)

type Store = readonly [driver: Parameters<typeof createLocks>[0], end: () => unknown]
const host = '127.0.0.1'
let port = 0
type Answer = readonly (readonly [verb: string, error: BackendError])[]
const answers = new Map<string, Promise<Answer>>()

before(async () => {
  const server = createServer().listen(0, host)
  await once(server, 'listening')
  port = (server.address() as AddressInfo).port
  server.close()
  await once(server, 'close')
  // All side by side: several take ten seconds.
  for (const [name, make] of Object.entries({ ...stores, ...silent })) {
    const answer = told(make)
    answer.catch(() => undefined)
    answers.set(name, answer)
  }
})

function listening<C extends { on(event: 'error', listener: () => void): unknown }>(client: C): C {
  client.on('error', () => undefined)
  return client
}

function nodeRedis() {
  const client = listening(createClient({ socket: { host, port } }))
  client.connect().catch(() => undefined)
  return client
}

const stores: Readonly<Record<string, () => Store>> = {
  ioredis: () => {
    const client = listening(new Redis(port, host))
    return [redis({ client }), () => client.disconnect()]
  },
  'node-redis': () => {
    const client = nodeRedis()
    return [redis({ client }), () => client.destroy()]
  },
  redlock: () => {
    const clients = [1, 2, 3].map(() => listening(new Redis(port, host)))
    return [redlock({ clients }), () => clients.map((client) => client.disconnect())]
  },
  'redlock over node-redis': () => {
    const clients = [1, 2, 3].map(nodeRedis)
    return [redlock({ clients }), () => clients.map((client) => client.destroy())]
  },
  mysql2: () => {
    const pool = mysql2.createPool({ host, port, user: 'u', database: 'd' })
    return [mysql({ pool }), () => pool.end()]
  },
  pg: () => {
    const pool = new pg.Pool({ host, port })
    return [postgres({ pool }), () => pool.end()]
  },
  'postgres.js': () => {
    // Its pause between two attempts grows to 20 s by default, and `end` does not cut it short.
    const pool = postgresJs({ host, port, backoff: () => 0.1 })
    return [postgres({ pool }), () => pool.end({ timeout: 0 })]
  },
  etcd: () => [etcd({ endpoints: [`http://${host}:${port}`] }), () => undefined],
  consul: () => [consul({ url: `http://${host}:${port}` }), () => undefined],
  zookeeper: () => [zookeeper({ servers: `${host}:${port}` }), () => undefined],
}

/** Clients that keep the system's reason to themselves. */
const silent: Readonly<Record<string, () => Store>> = {
  'ioredis with Sentinels': () => {
    const client = listening(new Redis({ sentinels: [{ host, port }], name: 'm' }))
    return [redis({ client }), () => client.disconnect()]
  },
  'ioredis Cluster': () => {
    const client = listening(new Cluster([{ host, port }]))
    return [redis({ client }), () => client.disconnect()]
  },
  mariadb: () => {
    const pool = createPool({ host, port, user: 'u', database: 'd' })
    return [mysql({ pool }), () => pool.end()]
  },
}

/** Asks with every verb at once. Resolves with what each was told. */
async function told(make: () => Store): Promise<Answer> {
  const [driver, end] = make()
  const locks = createLocks(driver)
  const verbs: Record<string, () => Promise<unknown>> = {
    acquire: () => locks.mutex('a').acquire({ wait: 3_000 }),
    tryAcquire: () => locks.mutex('b').tryAcquire(),
    inspect: () => locks.inspect('c'),
    list: () => locks.list(),
    forceRelease: () => locks.forceRelease('d'),
  }
  try {
    const asked = Object.entries(verbs).map(async ([verb, ask]) => {
      const error = await ask().then(
        () => assert.fail(`${verb} resolved`),
        (error: unknown) => error as BackendError,
      )
      return [verb, error] as const
    })
    return (await Promise.all(asked)).filter(
      ([, error]) => (error as { code: string }).code !== 'UNSUPPORTED',
    )
  } finally {
    await locks.close()
    await end()
  }
}

for (const name of Object.keys(stores))
  test(`${name}: every verb says UNAVAILABLE, ECONNREFUSED, the address, and how long it tried`, async () => {
    const answer = (await answers.get(name)) ?? []
    assert.ok(answer.length >= 4, `${answer}`)
    for (const [verb, error] of answer) {
      const { code, reason, address, tried = -1 } = error
      assert.deepEqual(
        [code, reason, address],
        ['UNAVAILABLE', 'ECONNREFUSED', `${host}:${port}`],
        `${verb}: ${error}`,
      )
      assert.ok(tried >= 0, `${verb}: tried ${tried}`)
    }
  })

for (const name of Object.keys(silent))
  test(`${name}: every verb says UNAVAILABLE and how long it tried`, async () => {
    const answer = (await answers.get(name)) ?? []
    assert.ok(answer.length >= 4, `${answer}`)
    for (const [verb, error] of answer) {
      assert.equal(error.code, 'UNAVAILABLE', `${verb}: ${error}`)
      assert.ok((error.tried ?? -1) >= 0, `${verb}: tried ${error.tried}`)
    }
  })
