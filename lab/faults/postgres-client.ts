/** The postgres driver over a pool of pg, for workers and for the last look. */
import { type PostgresOptions, postgres } from 'holdfast/postgres'
import { Pool, type PoolClient } from 'pg'
import type { Client } from './store.js'

export interface PostgresPlace {
  readonly port: number
  /** `application_name`, by which the server knows whose connections are whose. */
  readonly name: string
  readonly strategy: 'row' | 'session'
  /** Listens over a pool of its own, as one does behind a pooler. */
  readonly ear?: boolean
}

/** The role of all workers: no superuser, so that the server may refuse it connections. */
export const role = 'lab'

const ignore = () => undefined

function give(client: PoolClient): void {
  client.release()
  client.off('error', ignore)
}

export function openPostgres({ port, name, strategy, ear }: PostgresPlace): Client {
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
  const pool = poolOf(name, 4)
  const ears = ear === true ? poolOf(`${name} ear`, 1) : undefined
  const options: PostgresOptions = { pool, strategy, create: false, ...(ears && { listen: ears }) }
  const strained = new Set<() => void>()
  return {
    driver: postgres(options),
    strain(ms) {
      const taken: PoolClient[] = []
      const back = () => {
        strained.delete(back)
        clearTimeout(timer)
        // What comes later goes back at once.
        for (const client of taken.splice(0)) give(client)
      }
      const timer = setTimeout(back, ms)
      strained.add(back)
      for (let i = 0; i < 4; i++) {
        // Not by its promise: the server's last word may be in the packet that opened the connection, and is then said before a promise
        // is told of it. While it is out nobody else listens, and an error that nobody listens to ends the process.
        pool.connect((_, client) => {
          client?.on('error', ignore)
          if (client === undefined) return
          if (strained.has(back)) taken.push(client)
          else give(client)
        })
      }
    },
    close: async () => {
      for (const back of strained) back()
      await pool.end()
      await ears?.end()
    },
  }
}
