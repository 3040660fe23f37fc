// A client that is set to a database which the server does not have, with every version: nothing is read or written in database 0.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { Redis } from 'ioredis'
import { createLocks } from '../../../src/create-locks.js'
import { redis } from '../../../src/drivers/redis/index.js'
import { redlock } from '../../../src/drivers/redlock/index.js'
import { leakCheck } from '../../support/leaks.js'
import { startMany } from '../../support/servers/redis.js'
import { peer } from './support/peer.js'
import { type ClientOptions, type Version, versions } from './support/versions.js'

const group = await startMany(3)
const [server] = group.servers
assert.ok(server)
after(() => group.stop())

const withDatabase = (version: Version, database: number): ClientOptions =>
  version.library === 'ioredis' ? { db: database } : { database }

/** With node-redis, connecting fails as well, and is tried again and again. */
async function opened(version: Version, port: number, database: number) {
  const { client, start, close } = await version.open({ is: 'single', port }, withDatabase(version, database))
  void start().catch(() => undefined)
  return { client, close }
}

/** node-redis is between two connections at times, and gives the reason for the last one. */
const refused = /^redis: (the server refused database 99 \(|.*no answer: )ERR DB index is out of range/

for (const version of versions) {
  test(`${version.name}: no lock of a missing database is granted, shown or released in database 0`, async (t) => {
    const name = `missing ${version.name}`
    const { locks: others } = peer(t, server.port)
    const { client, close } = await opened(version, server.port, 99)
    const locks = createLocks(redis({ client }))
    t.after(() => locks.close().then(close))
    await assert.rejects(locks.mutex(`${name} free`).acquire({ wait: 20_000 }), {
      code: 'BACKEND',
      message:
        /^redis: the server refused database 99 \(ERR DB index is out of range\): choose another one in the client's options or at the end of its URL/,
    })
    const lease = await others.mutex(name).acquire()
    await assert.rejects(locks.mutex(name).tryAcquire(), { message: refused })
    await assert.rejects(locks.inspect(name), { message: refused })
    await assert.rejects(locks.list(name), { message: refused })
    await assert.rejects(locks.forceRelease(name), { message: refused })
    assert.equal(await lease.release(), 'released')
  })
}

test('an account that may not select its database is refused, with the right that it lacks', async (t) => {
  await server.cli('ACL', 'SETUSER', 'unselecting', 'on', '>pw', 'allkeys', 'allchannels', '+@all', '-select')
  t.after(() => server.cli('ACL', 'DELUSER', 'unselecting'))
  const client = new Redis(server.port, { db: 3, username: 'unselecting', password: 'pw' })
  client.on('error', () => undefined)
  const locks = createLocks(redis({ client }))
  t.after(() => locks.close().then(() => client.disconnect()))
  await assert.rejects(locks.mutex('unselected').acquire({ wait: 20_000 }), {
    message: /^redis: the server refused database 3 \(.+\): ACL SETUSER <user> \+select, or database 0$/,
  })
})

test('an application that has selected another database stays there', async (t) => {
  await server.cli('EVAL', "redis.call('SELECT', 5) return redis.call('SET', 'hf:boot', 'new')", '0')
  for (const version of versions) {
    const { client, close } = await opened(version, server.port, 3)
    const own = client as typeof client & { select(database: number): Promise<unknown> }
    await own.select(5)
    const locks = createLocks(redis({ client }))
    t.after(() => locks.close().then(close))
    const lease = await locks.mutex(`selected ${version.name}`).acquire({ wait: 20_000 })
    const exists = "redis.call('SELECT', 5) return redis.call('EXISTS', KEYS[1])"
    assert.equal(await server.cli('EVAL', exists, '1', `hf:{selected ${version.name}}`), 1)
    assert.equal(await lease.release(), 'released')
  }
})

test('redlock gives the reason that the servers have', async (t) => {
  for (const version of versions) {
    const clients = await Promise.all(group.servers.map(({ port }) => opened(version, port, 16)))
    const locks = createLocks(redlock({ clients: clients.map(({ client }) => client) }))
    t.after(async () => {
      await locks.close()
      for (const { close } of clients) close()
    })
    await assert.rejects(locks.mutex('votes').acquire({ wait: 2_000 }), {
      message: /\(server 1: .*ERR DB index is out of range.*server 2: .*ERR DB index is out of range/,
    })
  }
})

after(leakCheck)
