// An account that may run scripts, and not every command in them: Redis refuses those with ERR, not NOPERM, and each version words it differently.
import assert from 'node:assert/strict'
import { after, type TestContext, test } from 'node:test'
import type { DriverFactory } from '../../../src/core/driver.js'
import { createLocks, type Locks } from '../../../src/create-locks.js'
import { redis } from '../../../src/drivers/redis/index.js'
import { redlock } from '../../../src/drivers/redlock/index.js'
import { leakCheck } from '../../support/leaks.js'
import { startMany, startRedis } from '../../support/servers/redis.js'
import type { RedisServer } from '../../support/servers/redis-node.js'
import { type Version, versionNamed } from './support/versions.js'

const three = await startMany(3)
const [redis8, valkey8] = await Promise.all([
  startRedis({ flavour: 'redis8' }),
  startRedis({ flavour: 'valkey8' }),
])
after(() => Promise.all([three.stop(), redis8.stop(), valkey8.stop()]))
const flavours = { redis7: three.servers[0], redis8, valkey8 }

const login = { username: 'app', password: 'secret' }
const newest = ['ioredis 6.0.0', 'redis 6.3.1'].map(versionNamed)
const refusal = { code: 'BACKEND', message: /refused \(NOPERM\).* it needs eval, evalsha/ }
/** No answer is late, and no lease ends, because the machine is slow. */
const patient = { commandTimeout: 60_000, maxTtl: 600_000 }
const ttl = 600_000

type Verbs = Readonly<Record<string, (locks: Locks) => Promise<unknown>>>
const verbs: Verbs = {
  tryAcquire: (locks) => locks.mutex('free').tryAcquire(),
  shared: (locks) => locks.readWrite('free').read.tryAcquire(),
  inspect: (locks) => locks.inspect('held'),
  forceRelease: (locks) => locks.forceRelease('held'),
}

/** The account may do everything but run these commands. */
async function allow(servers: readonly RedisServer[], ...denied: string[]): Promise<void> {
  const rules = ['reset', 'on', '>secret', '~hf:*', '&hf:*', '+@all', ...denied.map((name) => `-${name}`)]
  for (const server of servers) await server.cli('ACL', 'SETUSER', 'app', ...rules)
}

/** One process with an account that may do everything, until `allow` says otherwise. */
async function start(t: TestContext, version: Version, servers: readonly RedisServer[]) {
  await allow(servers)
  const opened = await Promise.all(servers.map(({ port }) => version.open({ is: 'single', port }, login)))
  const made: Locks[] = []
  t.after(async () => {
    await allow(servers)
    for (const locks of made) await locks.close()
    for (const { close } of opened) close()
  })
  await Promise.all(opened.map((one) => one.start()))
  const [client] = opened.map((one) => one.client)
  assert.ok(client)
  const locksOver = (driver: DriverFactory) => {
    const locks = createLocks(driver, { ttl })
    made.push(locks)
    return locks
  }
  return { client, clients: opened.map((one) => one.client), locksOver }
}

for (const version of newest) {
  for (const [flavour, server] of Object.entries(flavours)) {
    test(`${version.name} on ${flavour}: an account without a command of the scripts is told which rights it needs`, async (t) => {
      assert.ok(server)
      const { client, locksOver } = await start(t, version, [server])
      const locks = locksOver(redis({ client, ...patient }))
      const held = await locks.mutex('held').acquire()
      const asked: Verbs = {
        ...verbs,
        acquire: () => locks.mutex('free').acquire({ wait: 600_000 }),
        extend: () => held.extend(),
        list: () => locks.list(),
        both: () => locks.all([locks.mutex('one'), locks.mutex('two')]).tryAcquire(),
      }
      // Without TIME the script ends with an error; without HMGET one request of the script has it.
      for (const command of ['time', 'hmget']) {
        await allow([server], command)
        for (const [verb, ask] of Object.entries(asked))
          await assert.rejects(ask(locks), refusal, `${verb} without ${command}`)
      }
      await allow([server], 'get')
      const stranger = locksOver(redis({ client, ...patient }))
      await assert.rejects(stranger.mutex('free').tryAcquire(), refusal)
      await allow([server])
      assert.equal(await held.release(), 'released')
    })
  }

  test(`${version.name}: where the server says which command, so does the error`, async (t) => {
    const { client, locksOver } = await start(t, version, [redis8])
    const locks = locksOver(redis({ client, ...patient }))
    for (const command of ['time', 'hmget', 'evalsha']) {
      await allow([redis8], command)
      await assert.rejects(locks.inspect('x'), { message: new RegExp(`may not run '${command}'; it needs`) })
    }
  })

  test(`${version.name}: redlock says so, too, and that the servers answered`, async (t) => {
    const { clients, locksOver } = await start(t, version, three.servers)
    const locks = locksOver(redlock({ clients, ...patient }))
    const held = await locks.mutex('held').acquire()
    const asked: Verbs = { ...verbs, extend: () => held.extend() }
    for (const command of ['time', 'evalsha']) {
      await allow(three.servers, command)
      for (const [verb, ask] of Object.entries(asked))
        await assert.rejects(ask(locks), refusal, `${verb} without ${command}`)
      await assert.rejects(locks.inspect('held'), { message: /channels `<prefix>redlock:\*`/ })
    }
    // These are asked for before the first vote.
    for (const command of ['smembers', 'info']) {
      await allow(three.servers, command)
      const stranger = locksOver(redlock({ clients, ...patient }))
      await assert.rejects(stranger.mutex('free').tryAcquire(), refusal, command)
    }
    await allow(three.servers)
    assert.equal(await held.release(), 'released')
  })
}

after(leakCheck)
