// Bad options, missing rights and tables, and settings of clients and servers that change what an answer means (H66, H67, H73).
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { inTransaction, migration, mysql } from 'holdfast/mysql'
import * as mariadb from 'mariadb'
import * as callbacks from 'mariadb/callback'
import {
  createPoolCluster as createCluster,
  createPool as createPlain,
  createConnection as createPlainConnection,
} from 'mysql2'
import * as promises from 'mysql2/promise'
import { createPool } from 'mysql2/promise'
import { createLocks } from '../../../src/create-locks.js'
import { leakCheck } from '../../support/leaks.js'
import { type MysqlServer, startMysql } from '../../support/servers/mysql.js'
import { deadlocks, statements } from './support/peer.js'

it('bad options are reported before any I/O, with the remedy', () => {
  const pool = { getConnection: () => Promise.reject(new Error('never')) }
  const bad: readonly [options: object | undefined, complaint: RegExp][] = [
    [undefined, /mysql\(\) takes options such as \{ pool \}, got undefined/],
    [{ pool: 'mysql://h' }, /pool must be a pool made by createPool of mysql2\/promise or mariadb, got/],
    [{ pool, strategy: 'rows' }, /strategy must be one of row, session, got "rows"/],
    [{ pool, strategy: 'transaction' }, /call inTransaction\(connection, name\)/],
    [{ pool, strategy: 'session', wakeWithGetLock: true }, /wakeWithGetLock is for strategy 'row'/],
    [{ pool, prefix: 'a`b' }, /prefix must be 1 to 40 letters, digits and _, got "a`b"/],
    [{ pool, connections: 0 }, /connections must be a whole number from 1 to 100, got 0/],
    [{ pool, commandTimeout: 1.5 }, /commandTimeout must be a whole number/],
    [{ pool, create: 'yes' }, /create must be true or false, got "yes"/],
  ]
  for (const [options, complaint] of bad) assert.throws(() => mysql(options as never), complaint)
  assert.throws(() => migration({ user: `a'b` }), /user must be a name or name@host/)
})

it('a cluster of pools is refused: it can send each statement to another server', async () => {
  const clusters = [promises.createPoolCluster(), createCluster(), mariadb.createPoolCluster()]
  const others = callbacks.createPoolCluster()
  for (const cluster of [...clusters, others]) {
    for (const pool of [cluster, cluster.of('*')])
      assert.throws(() => mysql({ pool: pool as never }), {
        name: 'TypeError',
        message: /^mysql: pool is a cluster of pools .* pass a pool of the one server/,
      })
  }
})

it('a pool that gives no connection is reported, and what to pass instead', async () => {
  for (const strategy of ['row', 'session'] as const) {
    const locks = createLocks(mysql({ pool: { getConnection: async () => undefined }, strategy }))
    await assert.rejects(locks.mutex('x').acquire(), {
      code: 'BACKEND',
      message: /^mysql: the pool gave no connection; use the promise flavours/,
    })
    await locks.close()
  }
})

describe('with a server', { concurrency: false }, () => {
  let server: MysqlServer
  before(async () => {
    server = await startMysql()
  })
  after(() => server.stop())

  it('pools and connections with callbacks are refused, and the error says what to pass instead', async () => {
    const place = { host: server.host, port: server.port, user: 'root', database: 'holdfast' }
    const [pool, plain, other] = [createPool(place), createPlain(place), callbacks.createPool(place)]
    assert.throws(() => mysql({ pool: plain as never }), {
      name: 'TypeError',
      message: /pass pool\.promise\(\)/,
    })
    assert.throws(() => mysql({ pool: other as never }), {
      name: 'TypeError',
      message: /pass one of 'mariadb'$/,
    })

    const connection = createPlainConnection(place)
    await connection.promise().beginTransaction()
    await assert.rejects(inTransaction(connection as never, 'callbacks', { pool }), {
      name: 'TypeError',
      message: /pass connection\.promise\(\)/,
    })
    const another = callbacks.createConnection(place)
    await new Promise<void>((resolve) => another.beginTransaction(() => resolve()))
    await assert.rejects(inTransaction(another as never, 'callbacks', { pool }), {
      name: 'TypeError',
      message: /pass one of 'mariadb'$/,
    })
    const taken = await inTransaction(connection.promise(), 'callbacks', { pool })
    assert.ok(taken.token > 0)

    await connection.promise().end()
    await new Promise<void>((resolve) => another.end(() => resolve()))
    await new Promise<void>((resolve) => other.end(() => resolve()))
    await plain.promise().end()
    await pool.end()
  })

  it('a user with nothing but the rights that `migration` grants can do everything', async (t) => {
    await server.query(`create user 'app'@'%'`)
    for (const statement of migration({ prefix: 'least_', user: 'app' })
      .split(';\n')
      .filter((one) => one.trim() !== '')) {
      await server.query(statement)
    }
    const pool = createPool({ host: server.host, port: server.port, user: 'app', database: 'holdfast' })
    const able = createLocks(mysql({ pool, prefix: 'least_' }))
    const unable = createLocks(mysql({ pool, prefix: 'other_' }))
    t.after(async () => {
      await able.close()
      await unable.close()
      await pool.end()
    })
    await able.mutex('x').run(() => undefined)
    await able.readWrite('x').read.run(() => undefined)
    const held = await able.mutex('x').acquire()
    assert.equal((await able.inspect('x')).holders.length, 1)
    assert.equal((await able.list()).length, 1)
    assert.equal(await able.forceRelease('x'), 1)
    await held.release()
    await assert.rejects(unable.mutex('x').acquire(), /mysql: the server refused \(1142\).*holdfast schema/)
  })

  it('missing tables are created, or reported', async (t) => {
    const pool = createPool(server.url)
    const expecting = createLocks(mysql({ pool, prefix: 'expected_', create: false }))
    const making = createLocks(mysql({ pool, prefix: 'expected_' }))
    t.after(async () => {
      await expecting.close()
      await making.close()
      await pool.end()
    })
    await assert.rejects(expecting.mutex('x').acquire(), {
      code: 'BACKEND',
      message: /\(1146\).*holdfast schema/,
    })
    await Promise.all([1, 2, 3].map((i) => making.mutex(`x ${i}`).run(() => undefined)))
    await expecting.mutex('x').run(() => undefined)
  })

  it('a connection inside a transaction is refused: an uncommitted grant holds for nobody', async (t) => {
    const pool = createPool(server.url)
    pool.pool.on('connection', (connection) => connection.query('set autocommit = 0'))
    const locks = createLocks(mysql({ pool }))
    t.after(async () => {
      await locks.close()
      await pool.end()
    })
    const refusal = /let its connections have autocommit on/
    await assert.rejects(locks.mutex('x').acquire(), refusal)
    // Nor is the row of a lock in a transaction made by one: it would stay locked in the pool.
    const connection = await pool.getConnection()
    await connection.beginTransaction()
    await assert.rejects(inTransaction(connection, 'x', { pool, wait: 60_000 }), refusal)
    await connection.rollback()
    connection.release()
  })

  for (const flags of ['FOUND_ROWS', '-FOUND_ROWS']) {
    it(`an answer means the same with the flag ${flags}, where counts of rows do not (H67)`, async (t) => {
      const pool = createPool({ uri: server.url, flags: [flags] })
      const [a, b] = [createLocks(mysql({ pool })), createLocks(mysql({ pool }))]
      t.after(async () => {
        await Promise.all([a.close(), b.close()])
        await pool.end()
      })
      await pool.query('create table if not exists naive (name varchar(20) primary key, owner int)')
      await pool.query('delete from naive')
      const upsert = async (owner: number) => {
        const [header] = await pool.query(
          `insert into naive values ('x', ${owner}) on duplicate key update owner = if(owner = 0, ${owner}, owner)`,
        )
        return (header as { affectedRows: number }).affectedRows
      }
      assert.equal(await upsert(1), 1)
      assert.equal(await upsert(2), flags === 'FOUND_ROWS' ? 1 : 0, 'busy, and told like an insert')
      const [lease, second] = [await a.mutex('flags').acquire(), await a.mutex('flags too').acquire()]
      await lease.extend()
      const both = () => Promise.all([lease.extend(), second.extend()])
      assert.deepEqual(await statements(server, both), { update_multi: 1 })
      await second.release()
      assert.equal(await b.mutex('flags').tryAcquire(), undefined)
      assert.equal(await lease.release(), 'released')
      await b.mutex('flags').run(() => undefined)
    })
  }

  it('a server that is read-only for a while, as in a fail-over, is waited for (H79)', async (t) => {
    await server.query(`create user 'plain'@'%'`)
    await server.query(`grant select, insert, update, delete, create on holdfast.* to 'plain'@'%'`)
    const pool = createPool({ host: server.host, port: server.port, user: 'plain', database: 'holdfast' })
    const locks = createLocks(mysql({ pool }))
    t.after(async () => {
      await server.query('set global read_only = 0')
      await locks.close()
      await pool.end()
    })
    await locks.mutex('x').run(() => undefined)
    await server.query('set global read_only = 1')
    await assert.rejects(locks.mutex('x').tryAcquire(), { code: 'BACKEND', message: /read-only/ })
    const told: unknown[] = []
    const refused = new Promise<void>((resolve) => {
      locks.on('waiting', ({ blocked }) => blocked.error !== undefined && resolve())
    })
    const waiting = locks.mutex('x').acquire({ wait: 60_000 })
    waiting.catch((error: unknown) => told.push(error))
    await refused
    await server.query('set global read_only = 0')
    await (await waiting).release()
    assert.deepEqual(told, [])
  })

  it('the classic unique-key lock deadlocks in a storm that rows survive (H66)', async (t) => {
    const pool = createPool({ uri: server.url, connectionLimit: 16 })
    t.after(() => pool.end())
    await pool.query('create table classic (name varchar(20) primary key)')
    const before = await deadlocks(server)
    const end = performance.now() + 60_000
    const codes = new Set<string>()
    const clients = Array.from({ length: 16 }, async () => {
      while (performance.now() < end && !codes.has('ER_LOCK_DEADLOCK')) {
        const connection = await pool.getConnection()
        try {
          await connection.beginTransaction()
          await connection.query(`insert into classic values ('x')`)
          await connection.rollback()
        } catch (error) {
          codes.add(String((error as { code?: unknown }).code))
          await connection.rollback().catch(() => undefined)
        } finally {
          connection.release()
        }
      }
    })
    await Promise.all(clients)
    assert.ok(codes.has('ER_LOCK_DEADLOCK') && (await deadlocks(server)) > before, [...codes].join(' '))
  })
})

after(leakCheck)
