/** Locks in MariaDB, and their floor. Each contender has one mysql2 pool, and acquires and releases by name. */
import { createLocks } from 'holdfast'
import { type MysqlOptions, mysql } from 'holdfast/mysql'
import { createPool } from 'mysql2/promise'

export interface Contender {
  take(name: string): Promise<() => Promise<unknown>>
  /** Number of waiters. */
  waiting(name: string): Promise<number>
  close(): Promise<void>
}

/** As many connections as concurrent statements, for ours and for the floor. */
const connections = 8

export function ours(url: string, options: Partial<MysqlOptions> = {}): Contender {
  const pool = createPool({ uri: url, connectionLimit: connections + 4 })
  const locks = createLocks(mysql({ pool, connections, ...options }), {
    fair: true,
    wait: Number.POSITIVE_INFINITY,
  })
  return {
    take: async (name) => {
      const lease = await locks.mutex(name).acquire()
      return () => lease.release()
    },
    waiting: async (name) => (await locks.inspect(name)).waiters.length,
    close: async () => {
      await locks.close()
      await pool.end()
    },
  }
}

/** One guarded UPDATE to take an existing row, one to release it: no token, no queue, no waiting. */
export async function bareUpdates(url: string, names: readonly string[]): Promise<Contender> {
  const pool = createPool({ uri: url, connectionLimit: connections })
  await pool.query(
    'create table if not exists bare (name varchar(100) primary key, owner int, ends datetime(6))',
  )
  for (const name of names) await pool.query('insert ignore into bare values (?, 0, now(6))', [name])
  const taking =
    'update bare set owner = 1, ends = now(6) + interval 30 second where name = ? and ends <= now(6)'
  return {
    take: async (name) => {
      await pool.query(taking, [name])
      return () => pool.query('update bare set owner = 0, ends = now(6) where name = ? and owner = 1', [name])
    },
    waiting: async () => 0,
    close: () => pool.end(),
  }
}

/** A blocking GET_LOCK on one connection per waiter, and RELEASE_LOCK: no token, and no other lock meanwhile. */
export async function bareGetLock(url: string): Promise<Contender> {
  const pool = createPool({ uri: url, connectionLimit: 1 })
  return {
    take: async (name) => {
      await pool.query('select get_lock(?, 30)', [name])
      return () => pool.query('select release_lock(?)', [name])
    },
    waiting: async () => {
      const reader = createPool({ uri: url, connectionLimit: 1 })
      const [rows] = await reader.query(
        `select count(*) as n from information_schema.processlist where state like 'User%lock%'`,
      )
      await reader.end()
      return Number((rows as { n: number }[])[0]?.n)
    },
    close: () => pool.end(),
  }
}
