// A role that may only SELECT: what it can do to the locks of `row`, and what it cannot.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { Client } from 'pg'
import { leakCheck } from '../../support/leaks.js'
import { startPostgres } from '../../support/servers/postgres.js'
import { inLine, peer } from './support/peer.js'

const server = await startPostgres()
after(() => server.stop())
await server.sql('create role reader login')

test('a role that may only SELECT sees holders, waiters and notes, and takes, ends, forges and delays nothing', async (t) => {
  const [a, b] = [peer(t, server.port), peer(t, server.port)]
  const lease = await a.locks.mutex('read').acquire({ ttl: 3_600_000, note: 'a note' })
  const next = b.locks.mutex('read').acquire({ wait: 600_000 })
  await inLine(a.locks, 'read', 1)
  await server.sql('grant select on all tables in schema public to reader')
  const { locks } = peer(t, server.port, { config: { user: 'reader' } })
  const seen = await locks.inspect('read')
  assert.deepEqual(
    [seen.holders[0]?.note, seen.holders[0]?.token, seen.waiters.length],
    ['a note', lease.token, 1],
  )
  assert.deepEqual(
    (await locks.list()).map(({ name }) => name),
    ['read'],
  )
  const refused = { code: 'BACKEND', message: /\(42501\)/ }
  await assert.rejects(locks.mutex('read').tryAcquire(), refused)
  await assert.rejects(locks.mutex('free').acquire({ wait: 10_000 }), refused)
  await assert.rejects(locks.forceRelease('read'), refused)

  const reader = new Client({ host: '127.0.0.1', port: server.port, user: 'reader', database: 'postgres' })
  await reader.connect()
  t.after(() => reader.end())
  const denied = { code: '42501' }
  for (const what of [
    'update holdfast_locks set token = 0',
    'select * from holdfast_locks for key share',
    'select * from holdfast_locks for update',
    'lock table holdfast_locks in row exclusive mode',
  ]) {
    await reader.query('begin')
    await assert.rejects(reader.query(what), denied, what)
    await reader.query('rollback')
  }
  // All that it can lock, in a transaction that it leaves open.
  await reader.query('begin isolation level serializable')
  await reader.query('lock table holdfast_locks, holdfast_waiters in access share mode')
  await reader.query('select * from holdfast_locks, holdfast_waiters')
  await lease.extend()
  assert.equal(await lease.release(), 'released')
  await (await next).release()
  await a.locks.mutex('free').run(() => undefined)
  await reader.query('rollback')
})

after(leakCheck)
