// A refusal that lasts, on every store that has cells: what reads a cell rejects with it at once, as `acquire` does.
// Second tier because it repeats for other stores what lasting-refusal.test.ts shows with Redis.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { createPool } from 'mysql2/promise'
import { Pool } from 'pg'
import { createLocks } from '../../src/create-locks.js'
import { consul } from '../../src/drivers/consul/index.js'
import { etcd } from '../../src/drivers/etcd/index.js'
import { mysql } from '../../src/drivers/mysql/index.js'
import { postgres } from '../../src/drivers/postgres/index.js'
import { zookeeper } from '../../src/drivers/zookeeper/index.js'
import type { DriverFactory, Locks } from '../../src/index.js'
import { leakCheck } from '../support/leaks.js'
import { startConsul } from '../support/servers/consul.js'
import { startEtcd } from '../support/servers/etcd.js'
import { startMysql } from '../support/servers/mysql.js'
import { startPostgres } from '../support/servers/postgres.js'
import { startZookeeper } from '../support/servers/zookeeper.js'

after(leakCheck)

const wait = Number.POSITIVE_INFINITY

/** Waits that nothing but the refusal can end. */
async function rejectsAll(driver: DriverFactory, message: RegExp): Promise<void> {
  const locks: Locks = createLocks(driver)
  const refused = { code: 'BACKEND', message }
  await assert.rejects(locks.mutex('a').acquire({ wait }), refused)
  await assert.rejects(locks.latch('a').wait({ wait }), refused)
  await assert.rejects(locks.election('a').observe()[Symbol.asyncIterator]().next(), refused)
  await assert.rejects(
    locks.once('a', () => assert.fail('it ran'), { wait }),
    refused,
  )
  await locks.close()
}

const within = { timeout: 60_000 }
const aclConfig = 'acl{enabled=true\ndefault_policy="deny"\ntokens{master="root"\nagent="root"}}'

test('postgres: tables are missing; the role does not exist', within, async () => {
  await using server = await startPostgres()
  const pool = new Pool({ connectionString: server.url })
  const stranger = new Pool({ connectionString: server.url.replace('postgres@', 'nobody@') })
  await rejectsAll(postgres({ pool, create: false }), /schema is missing or older|tables are missing/)
  await rejectsAll(postgres({ pool: stranger }), /refused \(28000\): the role could not log in/)
  await Promise.all([pool.end(), stranger.end()])
})

test('mysql: tables are missing; the password is wrong', within, async () => {
  await using server = await startMysql()
  const pool = createPool(server.url)
  const stranger = createPool(server.url.replace('root@', 'root:wrong@'))
  await rejectsAll(mysql({ pool, create: false }), /its tables are missing/)
  await rejectsAll(mysql({ pool: stranger }), /the user or the password is wrong/)
  await Promise.all([pool.end(), stranger.end()])
})

test('etcd: the user has no right', within, async () => {
  await using server = await startEtcd()
  for (const name of ['root', 'app']) await server.ask('/v3/auth/user/add', { name, password: 'right' })
  await server.ask('/v3/auth/role/add', { name: 'root' })
  await server.ask('/v3/auth/user/grant', { user: 'root', role: 'root' })
  await server.ask('/v3/auth/enable', {})
  const login = { username: 'app', password: 'right' }
  await rejectsAll(etcd({ endpoints: server.url, ...login }), /permission denied/)
})

test('consul: the token is not known', within, async () => {
  await using server = await startConsul({ config: aclConfig })
  const token = '11111111-1111-1111-1111-111111111111'
  await rejectsAll(consul({ url: server.url, token }), /ACL not found|Permission denied/)
})

test('zookeeper: the nodes belong to another login', within, async () => {
  await using server = await startZookeeper()
  const options = { servers: server.address, chroot: '/app', sessionTimeout: 10_000, tickTime: 500 }
  const auth = { scheme: 'digest', credential: 'owner:right' } as const
  const owner = createLocks(zookeeper({ ...options, auth, acl: 'creator' }))
  // A node that does not exist can be looked for by anybody.
  await owner.latch('a').setCount(1)
  await owner.once('a', () => 1, { keep: 1 })
  await (await owner.election('a').campaign('me')).release()
  await owner.close()
  await rejectsAll(zookeeper(options), /the login lacks a right/)
})
