/** What goes wrong with locks that are rows of MySQL and MariaDB. */
import { createLocks } from 'holdfast'
import { mysql } from 'holdfast/mysql'
import type { Pool, PoolConnection } from 'mysql2/promise'
import { until } from '../../test/support/until.js'
import { acquireAs, mariadb, ownLocks, underLock } from './database.js'
import { sceneTimeout } from './lock.js'
import type { Release } from './recorded-lock.js'
import type { Outcome, Scene, Side } from './scene.js'
import { elapsed, order, type SceneContext } from './scene-context.js'

type Names = 'A' | 'B' | 'C'

async function inTransaction(
  pool: Pool,
  work: (connection: PoolConnection) => Promise<unknown>,
): Promise<Release> {
  const connection = await pool.getConnection()
  const end = async (how: 'commit' | 'rollback') => {
    await connection[how]()
    connection.release()
  }
  try {
    await connection.beginTransaction()
    await work(connection)
    return () => end('commit')
  } catch (error) {
    await end('rollback')
    throw error
  }
}

function twoTickets(
  title: string,
  lockOver: (place: SceneContext, pool: Pool) => (code: string) => Promise<Release>,
): Side {
  return {
    title,
    async play(place) {
      const pool = await mariadb(place)
      await pool.query('create table tickets (id int primary key, code varchar(10) not null)')
      await pool.query(`insert into tickets values (1, 'A-1'), (2, 'B-2'), (3, 'C-3')`)
      const lock = lockOver(place, pool)
      // Two tickets: they do not exclude each other.
      const a = await acquireAs(place, 'A', () => lock('A-1'), 'shared')
      const b = await acquireAs(place, 'B', () => lock('B-2'), 'shared').catch(
        ({ code }: { code: string }) => code,
      )
      await elapsed(300)
      const told = typeof b === 'string'
      if (!told) await b?.release()
      await a?.release()
      return told
        ? { ok: false, saw: `B waited for a ticket other than its own: ${b}` }
        : { ok: true, saw: 'A and B have a ticket each, at once' }
    },
  }
}

export const noIndex: Scene = {
  name: 'no-index',
  store: 'mariadb',
  title: 'FOR UPDATE without an index',
  story: 'A locks ticket A-1, B locks ticket B-2. The column has no index.',
  holdfastDoes:
    'The lock is a row of a separate table, found by its primary key. Without an index InnoDB locks every row that it scans, so `FOR UPDATE` on one ticket locks the whole table.',
  page: 'drivers/mysql.md#strategies',
  naive: twoTickets(
    'SELECT … FOR UPDATE',
    (_, pool) => (code) =>
      inTransaction(pool, async (connection) => {
        await connection.query('set session innodb_lock_wait_timeout = 2')
        await connection.query('select id from tickets where code = ? for update', [code])
      }),
  ),
  holdfast: twoTickets('holdfast/mysql', (place, pool) => {
    const locks = ownLocks(place, createLocks(mysql({ pool })))
    return (code) => underLock(locks, `ticket:${code}`)
  }),
}

async function threeInserts(
  place: SceneContext,
  take: (who: Names) => Promise<Release>,
  waiting: () => Promise<number>,
): Promise<Outcome> {
  const a = await acquireAs(place, 'A', () => take('A'))
  const others = (['B', 'C'] as const).map(async (who) => {
    const held = await acquireAs(place, who, () => take(who))
    await elapsed(200)
    await held?.release()
  })
  const ended = Promise.allSettled(others)
  // InnoDB brings its list of transactions up to date only if nobody has read it for 100 ms.
  await until(async () => (await waiting()) === 2, { within: sceneTimeout, every: 150 })
  await a?.release()
  const broken = (await ended).flatMap((one) => (one.status === 'rejected' ? [one.reason.code] : []))
  return broken.length > 0
    ? { ok: false, saw: `one of the waiters got ${broken.join(' and ')}` }
    : { ok: true, saw: 'B and C had the lock one after the other' }
}

export const duplicateInsert: Scene = {
  name: 'duplicate-insert',
  store: 'mariadb',
  title: 'Two wait for the same insert',
  story:
    'The lock is a row with a unique name. A has inserted it in a transaction; B and C try to insert it, too. The work of A fails, and A rolls back.',
  holdfastDoes:
    'With unique keys both waiters get a shared lock on the gap when the row vanishes, both want an exclusive one, and that is a deadlock. In holdfast nobody waits inside the database: each statement is a transaction of its own, and the queue is a table.',
  page: 'drivers/mysql.md#guarantees',
  naive: {
    title: 'INSERT into a unique key',
    async play(place) {
      const pool = await mariadb(place)
      await pool.query('create table locks (name varchar(40) primary key)')
      const insert = `insert into ${place.prefix}.locks values ('${order}')`
      const waiting = async () => {
        const [rows] = await pool.query<never[]>(
          `select 1 from information_schema.innodb_trx where trx_state = 'LOCK WAIT' and trx_query = ?`,
          [insert],
        )
        return rows.length
      }
      const take = async () => {
        const connection = await pool.getConnection()
        await connection.beginTransaction()
        const free = async () => {
          await connection.rollback()
          connection.release()
        }
        await connection.query(insert).catch(async (error) => {
          await free()
          throw error
        })
        return free
      }
      return threeInserts(place, take, waiting)
    },
  },
  holdfast: {
    title: 'holdfast/mysql',
    async play(place) {
      const pool = await mariadb(place)
      // Each acts as a separate process: inside one process they would not even ask the database.
      const own = () => ownLocks(place, createLocks(mysql({ pool })))
      const locks = { A: own(), B: own(), C: own() }
      const waiting = async () => (await locks.A.inspect(order)).waiters.length
      return threeInserts(place, (who) => underLock(locks[who], order), waiting)
    },
  },
}
