/** What goes wrong with row locks and a pool of connections. */
import { createLocks } from 'holdfast'
import { postgres } from 'holdfast/postgres'
import pg from 'pg'
import { until } from '../../test/support/until.js'
import { acquireAs, ownLocks, underLock } from './database.js'
import { sceneTimeout } from './lock.js'
import type { Release } from './recorded-lock.js'
import type { Scene, Side } from './scene.js'
import { order, type SceneContext } from './scene-context.js'

const connections = 4

/** @param lock over the same pool that the work uses */
function fivePay(
  title: string,
  lockOver: (place: SceneContext, pool: pg.Pool) => () => Promise<Release>,
): Side {
  return {
    title,
    async play(place) {
      const { url } = await place.servers.postgres()
      const options = { connectionString: url, max: connections, connectionTimeoutMillis: 2_000 }
      const pool = new pg.Pool({ ...options, options: `-c search_path=${place.prefix}` })
      place.keep(() => pool.end())
      await pool.query(`create schema ${place.prefix}`)
      await pool.query('create table accounts (id int primary key)')
      await pool.query('create table ledger (who text)')
      await pool.query('insert into accounts values (7)')
      const take = lockOver(place, pool)
      const standing = () =>
        place.history.history().acquisitions.filter(({ granted }) => granted === undefined)
      const pay = async (who: string, othersCame?: () => Promise<unknown>) => {
        const held = await acquireAs(place, who, take)
        await othersCame?.()
        try {
          await pool.query('insert into ledger values ($1)', [who])
        } finally {
          await held?.release()
        }
      }
      const first = pay('A', () => until(() => standing().length === 4, { within: sceneTimeout }))
      await until(() => standing().length === 0 && place.history.history().acquisitions.length === 1)
      const ends = await Promise.allSettled([first, ...['B', 'C', 'D', 'E'].map((who) => pay(who))])
      const { rows } = await pool.query('select who from ledger')
      const failed = ends.filter(({ status }) => status === 'rejected').length
      return failed > 0
        ? { ok: false, saw: `${failed} of 5 got no connection: all ${connections} were kept by the lock` }
        : { ok: rows.length === 5, saw: `${rows.length} of 5 were paid` }
    },
  }
}

export const poolExhausted: Scene = {
  name: 'pool-exhausted',
  store: 'postgres',
  title: 'The pool is used up by waiting',
  story: `Five requests pay from one account. The pool has ${connections} connections, and the holder needs one more, for the ledger.`,
  holdfastDoes:
    'Waiting costs no connection of the pool: the lock has a few of its own. With row locks the waiters occupy all connections, and the holder waits for one of them, until a time-out if there is one.',
  page: 'drivers/postgres.md#three-strategies',
  naive: fivePay('SELECT … FOR UPDATE', (_, pool) => async () => {
    const client = await pool.connect()
    await client.query('begin')
    await client.query('select id from accounts where id = 7 for update')
    return async () => {
      await client.query('commit')
      client.release()
    }
  }),
  holdfast: fivePay('holdfast/postgres', (place, pool) => {
    const locks = ownLocks(place, createLocks(postgres({ pool, schema: place.prefix })))
    return () => underLock(locks, order)
  }),
}
