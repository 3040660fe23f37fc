// A process of its own that carries out requests under `once`, to be killed. See `once-loop.ts`.
import { setTimeout as pause } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { createPool } from 'mysql2/promise'
import { Pool } from 'pg'
import { redis } from '../../../src/drivers/redis/index.js'
import { mysql2, once, pg, type Sql } from '../../../src/guard/index.js'
import { createLocks } from '../../../src/index.js'
import type { Effect, Note, OnceTask, Outcome } from './once-loop.js'

type Perform = (key: string) => Promise<Outcome>
type Connect = () => Promise<{ readonly db: Sql; release(): void }>

const say = (note: Note) => void process.send?.(note)
const moment = () => pause(Math.random() * 4)
let runs = 0

/** The work itself: between the notes it can be killed before its write, and before what follows the write. */
async function work(key: string, write: (run: string) => Promise<unknown>): Promise<Effect> {
  say({ at: 'before', key })
  await moment()
  const run = `${process.pid}:${++runs}`
  await write(run)
  say({ at: 'written', key })
  await moment()
  return { key, run }
}

const inserted = (db: Sql, key: string) => (run: string) =>
  db.run(`insert into effects (name, run) values ${db.dialect === 'mysql' ? '(?, ?)' : '($1, $2)'}`, [
    key,
    run,
  ])

function overSql(connect: Connect): Perform {
  return async (key) => {
    for (;;) {
      const { db, release } = await connect()
      try {
        await db.run('begin', [])
        const outcome = await once(db, key, () => work(key, inserted(db, key)))
        await db.run('commit', [])
        say({ at: 'committed', key })
        return outcome
      } catch (error) {
        await db.run('rollback', [])
        if (!isDeadlock(error as object)) throw error
      } finally {
        release()
      }
    }
  }
}

/** 1213: a deadlock; 1020: the row was changed since the snapshot (MariaDB). `once` tells callers to repeat the transaction. */
function isDeadlock({ errno, code }: { errno?: number; code?: string }): boolean {
  return errno === 1213 || errno === 1020 || code === '40P01'
}

/** As it is often written: look, work, note that it was done; each by itself. */
function withoutTransaction(connect: Connect): Perform {
  return async (key) => {
    const { db, release } = await connect()
    try {
      const [$1, $2, ignore, instead] =
        db.dialect === 'mysql' ? ['?', '?', 'ignore', ''] : ['$1', '$2', '', 'on conflict do nothing']
      const { rows } = await db.run(`select result from noted where name = ${$1}`, [key])
      if (rows[0] !== undefined) return { result: JSON.parse(`${rows[0]['result']}`), repeated: true }
      const result = await work(key, inserted(db, key))
      await db.run(`insert ${ignore} into noted (name, result) values (${$1}, ${$2}) ${instead}`, [
        key,
        JSON.stringify(result),
      ])
      return { result, repeated: false }
    } finally {
      release()
    }
  }
}

function overRedis(url: string): Perform {
  const client = new Redis(url)
  const locks = createLocks(redis({ client }))
  return async (key) => {
    let repeated = true
    const run = () => {
      repeated = false
      return work(key, (by) => client.rpush(`effects:${key}`, by))
    }
    const result = await locks.once(key, run, { ttl: 5_000, wait: 120_000, keep: 600_000 })
    say({ at: 'committed', key })
    return { result, repeated }
  }
}

function connector({ store, url }: OnceTask): Connect {
  if (store === 'postgres') {
    const pool = new Pool({ connectionString: url, max: 12 })
    return async () => {
      const client = await pool.connect()
      return { db: pg(client), release: () => client.release() }
    }
  }
  const pool = createPool({ uri: url, connectionLimit: 12 })
  return async () => {
    const connection = await pool.getConnection()
    return { db: mysql2(connection), release: () => connection.release() }
  }
}

function performer(task: OnceTask): Perform {
  if (task.store === 'redis') return overRedis(task.url)
  return task.broken === true ? withoutTransaction(connector(task)) : overSql(connector(task))
}

const perform = performer(JSON.parse(process.argv[2] ?? ''))
process.on('disconnect', () => process.exit())
process.on('message', (keys: readonly string[]) => {
  for (const key of keys)
    perform(key).then(
      (outcome) => say({ answered: key, outcome }),
      (error: unknown) => say({ answered: key, error: `${error}` }),
    )
})
say({ ready: true })
