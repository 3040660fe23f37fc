// A client that the server does not let in, or that has ended: every verb says so at once. The client itself would hold the
// request back until its next try, longer than a request may take.
import assert from 'node:assert/strict'
import { after, type TestContext, test } from 'node:test'
import { Redis } from 'ioredis'
import { createClient } from 'redis'
import { createLocks, type Locks } from '../../../src/create-locks.js'
import { type RedisClient, redis } from '../../../src/drivers/redis/index.js'
import { leakCheck } from '../../support/leaks.js'
import { startRedis } from '../../support/servers/redis.js'

const server = await startRedis({ args: ['--requirepass', 'right'] })
after(() => server.stop())
after(leakCheck)

const wait = Number.POSITIVE_INFINITY
const verbs: Readonly<Record<string, (locks: Locks) => Promise<unknown>>> = {
  tryAcquire: ({ mutex }) => mutex('a').tryAcquire(),
  acquire: ({ mutex }) => mutex('a').acquire({ wait }),
  inspect: ({ inspect }) => inspect('a'),
  list: ({ list }) => list(),
  forceRelease: ({ forceRelease }) => forceRelease('a'),
  'job().run': ({ job }) => job('a').run(() => assert.fail('it ran')),
  'election().leader': ({ election }) => election('a').leader(),
  'election().observe': ({ election }) => election('a').observe()[Symbol.asyncIterator]().next(),
  'latch().wait': ({ latch }) => latch('a').wait({ wait }),
  'pool().acquire': ({ pool }) => pool('a', { permits: 1 }).acquire({ wait }),
  health: async ({ health }) => {
    const { error } = await health()
    throw error ?? new Error('healthy')
  },
}

type Client = RedisClient & { on(event: 'error', listener: (error: Error) => void): unknown }

/** Clients that try once, and then not again for longer than a request may take. node-redis does not take its timer back. */
const clients: Readonly<Record<string, (t: TestContext, password: string | undefined) => Client>> = {
  ioredis(t, password) {
    const login = password === undefined ? {} : { password }
    const client = new Redis(server.port, server.host, { ...login, retryStrategy: () => 3_600_000 })
    t.after(() => client.disconnect())
    return client
  },
  'node-redis'(t, password) {
    const socket = { host: server.host, port: server.port, reconnectStrategy: () => 5_000 }
    const client = createClient({ ...(password !== undefined && { password }), socket })
    client.connect().catch(() => undefined)
    t.after(() => client.destroy())
    return client as unknown as Client
  },
}

/** Unlike `once` of Node, an error does not end it. */
const happens = (client: Redis, event: string) => new Promise((resolve) => client.once(event, resolve))

async function refusedBy(t: TestContext, client: Client): Promise<Locks> {
  const locks = createLocks(redis({ client, quarantine: 'off' }))
  t.after(() => locks.close())
  await new Promise((resolve) => client.on('error', resolve))
  return locks
}

for (const [kind, make] of Object.entries(clients)) {
  test(`${kind} with a wrong password: every verb says what the server has said`, {
    timeout: 60_000,
  }, async (t) => {
    const locks = await refusedBy(t, make(t, 'wrong'))
    for (const [verb, ask] of Object.entries(verbs))
      await assert.rejects(ask(locks), { code: 'BACKEND', message: /refused \(WRONGPASS\)/ }, verb)
  })
}

test('ioredis without a password: every verb says what the server has said', {
  timeout: 60_000,
}, async (t) => {
  const locks = await refusedBy(t, clients['ioredis']?.(t, undefined) as Client)
  for (const [verb, ask] of Object.entries(verbs))
    await assert.rejects(ask(locks), { code: 'BACKEND', message: /refused \(NOAUTH\)/ }, verb)
})

test('once the server lets the client in, the same locks work', { timeout: 60_000 }, async (t) => {
  const own = await startRedis({ args: ['--requirepass', 'right'] })
  t.after(() => own.stop())
  const client = new Redis(own.port, own.host, { password: 'new', retryStrategy: () => 50 })
  t.after(() => client.disconnect())
  const locks = await refusedBy(t, client)
  await assert.rejects(locks.mutex('a').acquire({ wait }), /refused \(WRONGPASS\)/)
  const ready = happens(client, 'ready')
  const admin = new Redis(own.port, own.host, { password: 'right' })
  t.after(() => admin.disconnect())
  await admin.config('SET', 'requirepass', 'new')
  await ready
  await locks.mutex('a').run(() => undefined)
})

test('a client that has given up: every verb says so, and none goes on asking', {
  timeout: 60_000,
}, async (t) => {
  const own = await startRedis()
  const client = new Redis(own.port, own.host, { retryStrategy: () => null })
  client.on('error', () => undefined)
  t.after(() => client.disconnect())
  const locks = createLocks(redis({ client }))
  t.after(() => locks.close())
  await locks.mutex('a').run(() => undefined)
  const ended = happens(client, 'end')
  await own.stop()
  await ended
  // With the error of the connection that it tried last.
  const again = happens(client, 'end')
  client.connect().catch(() => undefined)
  await again
  for (const [verb, ask] of Object.entries(verbs))
    await assert.rejects(ask(locks), /has given up: .*ECONNREFUSED/, verb)
})
