/**
 * A hundred requests for one order, and one order: `once` runs the first and gives its result to the others, and keeps it for a while.
 * The lock is a row with a lease, found by its primary key. Needs MySQL or MariaDB at MYSQL_URL; the table `example_orders` is created and dropped.
 */
import assert from 'node:assert/strict'
import { createLocks } from 'holdfast'
import { mysql } from 'holdfast/mysql'
import { createPool, type ResultSetHeader } from 'mysql2/promise'

const uri = process.env['MYSQL_URL'] ?? 'mysql://root@127.0.0.1/test'
// A small separate pool protects locks from an application that uses up its connections.
const [pool, lockPool] = [createPool({ uri, connectionLimit: 5 }), createPool({ uri, connectionLimit: 4 })]
const locks = createLocks(mysql({ pool: lockPool, prefix: 'holdfast_example_' }))
await pool.query('drop table if exists example_orders')
await pool.query(
  'create table example_orders (id int auto_increment primary key, request varchar(40) not null unique)',
)

const place = (request: string) =>
  locks.once(
    `order:${request}`,
    async () => {
      const [{ insertId }] = await pool.query<ResultSetHeader>(
        'insert into example_orders (request) values (?)',
        [request],
      )
      return insertId
    },
    { keep: 60_000 },
  )

const answers = await Promise.all(Array.from({ length: 100 }, () => place('981')))
assert.equal(new Set(answers).size, 1)
const [rows] = await pool.query<never[]>('select id from example_orders')
assert.equal(rows.length, 1)
console.log(`100 requests, ${rows.length} order, and everybody was told its number: ${answers[0]}`)

await locks.close()
await pool.query('drop table example_orders')
for (const table of await tablesOf('holdfast_example_')) await pool.query(`drop table ${table}`)
await pool.end()
await lockPool.end()

async function tablesOf(prefix: string): Promise<readonly string[]> {
  const [found] = await pool.query(
    'select table_name as name from information_schema.tables where table_schema = database()',
  )
  return (found as { name: string }[]).map(({ name }) => name).filter((name) => name.startsWith(prefix))
}
