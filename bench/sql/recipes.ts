/**
 * Ways to lock in PostgreSQL: ours, the npm libraries that do so, and a polled row as ShedLock keeps it. Each is used as its own
 * documentation shows; if one gives up, the call is retried at once and the retry counted.
 */
import { randomUUID } from 'node:crypto'
import { setTimeout } from 'node:timers/promises'
import { createLocks } from 'holdfast'
import { postgres } from 'holdfast/postgres'
import { Pool } from 'pg'
import { loadPeer } from '../peer-packages.js'

export type Take = (name: string) => Promise<Release>
type Release = () => Promise<unknown>

export interface Contender {
  readonly take: Take
  readonly gaveUp: () => number
  close(): Promise<unknown>
}

export interface Recipe {
  readonly name: string
  readonly settings: string
  open(url: string): Promise<Contender>
}

/** The default pool size of node-postgres. */
const connections = 10
const never = () => 0

const ours = (strategy: 'row' | 'session'): Recipe => ({
  name: `holdfast/postgres, ${strategy}`,
  settings: 'default',
  async open(url) {
    const pool = new Pool({ connectionString: url, max: connections })
    const locks = createLocks(postgres({ pool, strategy }), { wait: Number.POSITIVE_INFINITY })
    return {
      take: async (name) => {
        const lease = await locks.mutex(name).acquire()
        return () => lease.release()
      },
      gaveUp: never,
      close: () => locks.close().then(() => pool.end()),
    }
  },
})

/** A blocking `pg_advisory_lock` on its own connection, which is kept open: no token, no renewal, no time limit. */
const bare: Recipe = {
  name: 'pg_advisory_lock, a pooled connection for each that waits',
  settings: 'floor',
  async open(url) {
    const pool = new Pool({ connectionString: url, max: 40 })
    return {
      async take(name) {
        const client = await pool.connect()
        await client.query('select pg_advisory_lock(hashtextextended($1, 0))', [name])
        return async () => {
          await client.query('select pg_advisory_unlock(hashtextextended($1, 0))', [name])
          client.release()
        }
      },
      gaveUp: never,
      close: () => pool.end(),
    }
  },
}

/** A row with `lock_until`, written when free; if it is taken, polls again after `every` ms. */
const polling = (every: number): Recipe => ({
  name: 'a row, ShedLock’s way',
  settings: `looks every ${every} ms`,
  async open(url) {
    const pool = new Pool({ connectionString: url, max: connections })
    await pool.query(
      'create table if not exists shedlock (name text primary key, lock_until timestamptz not null, locked_by text not null)',
    )
    const taking = `insert into shedlock values ($1, clock_timestamp() + interval '30 s', $2)
      on conflict (name) do update set lock_until = excluded.lock_until, locked_by = excluded.locked_by
      where shedlock.lock_until <= clock_timestamp()`
    const giving = 'update shedlock set lock_until = clock_timestamp() where name = $1 and locked_by = $2'
    return {
      async take(name) {
        const owner = randomUUID()
        while ((await pool.query(taking, [name, owner])).rowCount !== 1) await setTimeout(every)
        return () => pool.query(giving, [name, owner])
      },
      gaveUp: never,
      close: () => pool.end(),
    }
  },
})

interface Verrou {
  readonly Verrou: new (
    config: object,
  ) => {
    createLock(key: string): { acquire(options: object): Promise<boolean>; release(): Promise<void> }
  }
  knexStore(config: { readonly connection: object; readonly autoCreateTable: boolean }): object
  /** knex itself, the last of the modules. */
  default(config: object): { destroy(): Promise<void>; raw(text: string): Promise<unknown> }
}

const verrou = (settings: 'default' | 'fast'): Recipe => ({
  name: '@verrou/core, knex',
  settings: settings === 'fast' ? 'looks every 5 ms' : 'default',
  async open(url) {
    const names = ['@verrou/core', '@verrou/core/drivers/knex', 'knex']
    const modules = await Promise.all(names.map(loadPeer))
    const { Verrou, knexStore, default: knex } = Object.assign({}, ...modules) as Verrou
    const connection = knex({ client: 'pg', connection: url, pool: { min: 0, max: connections } })
    await connection.raw(
      'create table if not exists verrou (key varchar(255) primary key, owner varchar(255) not null, expiration bigint)',
    )
    const driver = knexStore({ connection, autoCreateTable: false })
    const locks = new Verrou({ default: 'sql', stores: { sql: { driver } } })
    const options = settings === 'fast' ? { retry: { delay: 5 } } : {}
    let gaveUp = 0
    return {
      async take(name) {
        const lock = locks.createLock(name)
        while (!(await lock.acquire(options))) gaveUp++
        return () => lock.release()
      },
      gaveUp: () => gaveUp,
      close: () => connection.destroy(),
    }
  },
})

interface AdvisoryLock {
  readonly default: { default(url: string): (name: string) => { lock(): Promise<Release> } }
}

const advisoryLock: Recipe = {
  name: 'advisory-lock',
  settings: 'default',
  async open(url) {
    const module = (await loadPeer('advisory-lock')) as AdvisoryLock
    const mutex = module.default.default(url)
    return { take: (name) => mutex(name).lock(), gaveUp: never, close: async () => undefined }
  },
}

export const recipes: Readonly<Record<string, Recipe>> = {
  bare,
  row: ours('row'),
  session: ours('session'),
  verrou: verrou('default'),
  'verrou-fast': verrou('fast'),
  'advisory-lock': advisoryLock,
  polling: polling(100),
  'polling-fast': polling(5),
}

export function findRecipe(id: string): Recipe {
  const recipe = recipes[id]
  if (recipe === undefined) throw new Error(`no way to lock in PostgreSQL is called ${id}`)
  return recipe
}
