// PostgreSQL and PgBouncer as the other tests use them: they come up, survive a kill, and their clock can be moved.
// Second tier because the servers of the tests seldom change.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { leakCheck } from '../leaks.js'
import { startPgBouncer } from './pgbouncer.js'
import { startPostgres } from './postgres.js'

const server = await startPostgres({ preload: ['clock'], settings: { fsync: 'on' } })
after(() => server.stop())

test('a server keeps what was committed over kill -9', async () => {
  await server.sql('create table kept (x int)')
  await server.sql('insert into kept values ($1)', [7])
  await server.restart()
  assert.deepEqual(await server.sql('select x from kept'), [{ x: 7 }])
})

test('its clock can be moved, and only its', async () => {
  const ahead = async () => {
    const [row] = await server.sql('select extract(epoch from clock_timestamp()) * 1000 as t')
    return Number(row?.['t']) - Date.now()
  }
  server.clockJump(3_600_000)
  assert.ok(Math.abs((await ahead()) - 3_600_000) < 60_000)
  server.clockJump(-3_600_000)
  assert.ok(Math.abs(await ahead()) < 60_000)
})

test('a paused server answers nothing until it is resumed', async () => {
  server.pause()
  let answered = false
  const answer = server.sql('select 1').then(() => {
    answered = true
  })
  await new Promise((resolve) => setTimeout(resolve, 200))
  assert.equal(answered, false)
  server.resume()
  await answer
})

test('a pooler gives the transactions of several clients the same server connection', async () => {
  const pooler = await startPgBouncer(server, 'transaction', 1)
  const { Client } = await import('pg')
  const clients = [1, 2].map(() => new Client(pooler.url))
  const pids = []
  for (const client of clients) {
    await client.connect()
    pids.push((await client.query('select pg_backend_pid() as pid')).rows[0].pid)
  }
  assert.equal(pids[0], pids[1])
  for (const client of clients) await client.end()
  await pooler.stop()
})

after(leakCheck)
