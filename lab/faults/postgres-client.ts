/** The postgres driver over a pool of pg, for workers and for the final inspection. */
import { inTransaction, type PostgresOptions, postgres } from 'holdfast/postgres'
import { Pool, type PoolClient } from 'pg'
import type { Client, InTransaction } from './store.js'
import { within } from './transactions.js'

export interface PostgresPlace {
  readonly port: number
  /** `application_name`, by which the server identifies the worker's connections. */
  readonly name: string
  readonly strategy: 'row' | 'session'
  /** Listens over a separate pool, as clients behind a pooler do. */
  readonly subscriber?: boolean
  /** One connection for everything except sessions. */
  readonly single?: boolean
}

/** The role of all workers: no superuser, so that the server may refuse it connections. */
export const role = 'lab'

const ignore = () => undefined

function give(client: PoolClient): void {
  client.release()
  client.off('error', ignore)
}

export function openPostgres({ port, name, strategy, subscriber, single = false }: PostgresPlace): Client {
  const poolOf = (application_name: string, max: number) => {
    const pool = new Pool({
      host: '127.0.0.1',
      port,
      user: role,
      database: 'postgres',
      application_name,
      max,
    })
    pool.on('error', () => undefined)
    return pool
  }
  const size = single ? 1 : 4
  const pool = poolOf(name, size)
  const subscribers = subscriber === true ? poolOf(`${name} subscriber`, 1) : undefined
  const options: PostgresOptions = {
    pool,
    strategy,
    create: false,
    ...(subscribers && { listen: subscribers }),
    ...(single && { connections: 1 }),
  }
  const strained = new Set<() => void>()
  return {
    driver: postgres(options),
    strain(ms) {
      const taken: PoolClient[] = []
      const back = () => {
        strained.delete(back)
        clearTimeout(timer)
        // A connection that arrives later goes back at once.
        for (const client of taken.splice(0)) give(client)
      }
      const timer = setTimeout(back, ms)
      strained.add(back)
      for (let i = 0; i < size; i++) {
        // Uses the callback, not the promise: the server's last message may be in the packet that opened the connection, and is then
        // emitted before a promise settles. Between the two nothing else listens, and an unhandled error event ends the process.
        pool.connect((_, client) => {
          client?.on('error', ignore)
          if (client === undefined) return
          if (strained.has(back)) taken.push(client)
          else give(client)
        })
      }
    },
    // Over a pool of one, the leases would wait for the transactions.
    ...(!single && { transaction: (lock: string, wait: number) => begin(pool, lock, wait) }),
    transactionsApart: strategy === 'row',
    close: async () => {
      for (const back of strained) back()
      await pool.end()
      await subscribers?.end()
    },
  }
}

async function begin(pool: Pool, name: string, wait: number): Promise<InTransaction | undefined> {
  const client = await connected(pool)
  const end = (broken: boolean) => {
    client.release(broken)
    client.off('error', ignore)
  }
  try {
    await within(client.query('begin'))
    const { token } = await within(inTransaction(client, name, { wait }), wait + 3_000)
    const commit = async () => {
      const committed = await within(client.query('commit')).catch(ignore)
      end(committed?.command !== 'COMMIT')
      // If a statement in the transaction failed, the server ends it with ROLLBACK and reports success.
      if (committed?.command !== 'COMMIT') throw new Error('not committed')
    }
    return { token, commit }
  } catch (error) {
    end(true)
    if ((error as { code?: unknown }).code === 'ACQUIRE_TIMEOUT') return undefined
    throw error
  }
}

/** Not by its promise: see `strain` above. A connection that arrives too late goes back at once. */
function connected(pool: Pool): Promise<PoolClient> {
  return new Promise((resolve, reject) => {
    let late = false
    const timer = setTimeout(() => {
      late = true
      reject(new Error('no connection'))
    }, 3_000)
    pool.connect((error, client) => {
      clearTimeout(timer)
      client?.on('error', ignore)
      if (client === undefined) reject(error)
      else if (late) give(client)
      else resolve(client)
    })
  })
}
