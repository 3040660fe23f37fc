// Locks of connections and transactions as `holdfast ls` shows them.
// Second tier because matrix-sql.test.ts lists the locks of each strategy with its own URL; here it is the URL of another one.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { createLocks, type Locks } from 'holdfast'
import { mysql } from 'holdfast/mysql'
import { inTransaction, postgres } from 'holdfast/postgres'
import { createPool } from 'mysql2/promise'
import { Pool } from 'pg'
import { leakCheck } from '../support/leaks.js'
import { startMysql } from '../support/servers/mysql.js'
import { startPostgres } from '../support/servers/postgres.js'
import { bench } from './support/cli.js'

/** Names that `ls` shows for each URL. */
async function listed(urls: readonly string[]): Promise<readonly (readonly string[])[]> {
  const names: (readonly string[])[] = []
  for (const url of urls) {
    const at = bench(url)
    const { code, stdout, stderr } = await at.cli('ls', '--json')
    assert.equal(code, 0, stderr)
    const { locks } = JSON.parse(stdout) as { readonly locks: readonly { readonly name: string }[] }
    names.push(locks.map(({ name }) => name).sort())
    at.close()
  }
  return names
}

const holdBoth = async (row: Pick<Locks, 'mutex'>, session: Pick<Locks, 'mutex'>) => {
  await row.mutex('by a row').acquire({ ttl: 3_600_000 })
  await session.mutex('by a connection').acquire({ ttl: 3_600_000 })
}

test('postgres: each strategy shows its own holders, and none shows a transaction', async (t) => {
  const server = await startPostgres()
  const pool = new Pool({ connectionString: server.url })
  const [row, session] = [
    createLocks(postgres({ pool })),
    createLocks(postgres({ pool, strategy: 'session' })),
  ]
  t.after(async () => {
    await Promise.all([row.close(), session.close()])
    await pool.end()
    await server.stop()
  })
  await holdBoth(row, session)
  const client = await pool.connect()
  await client.query('begin')
  await inTransaction(client, 'by a transaction')
  assert.deepEqual(await listed([server.url, `${server.url}?strategy=session`]), [
    ['by a row'],
    ['by a connection'],
  ])
  await client.query('rollback')
  client.release()
})

test('mysql: both strategies show the holders of both', async (t) => {
  const server = await startMysql()
  const pool = createPool(server.url)
  const [row, session] = [createLocks(mysql({ pool })), createLocks(mysql({ pool, strategy: 'session' }))]
  t.after(async () => {
    await Promise.all([row.close(), session.close()])
    await pool.end()
    await server.stop()
  })
  await holdBoth(row, session)
  const all = ['by a connection', 'by a row']
  assert.deepEqual(await listed([server.url, `${server.url}?strategy=session`]), [all, all])
})

after(leakCheck)
