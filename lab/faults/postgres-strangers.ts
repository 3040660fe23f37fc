/** Others on the same PostgreSQL server, who are in the way. */
import { Client } from 'pg'
import type { PostgresServer } from '../../test/support/servers/postgres.js'
import { role } from './postgres-client.js'
import { ofWorkers, order } from './postgres-orders.js'
import type { Fault } from './store.js'

const ignore = () => undefined

/** Somebody else's transaction keeps what is ours for a while, and is then rolled back. */
export function stranger(server: PostgresServer): Fault {
  const ways = [
    'select * from holdfast_locks order by name for update',
    'lock table holdfast_locks in share mode',
    'lock table holdfast_waiters in access exclusive mode',
    'select * from holdfast_locks order by random() limit 1 for update',
  ]
  return {
    kind: 'a stranger locks rows',
    subjects: ['stranger'],
    weight: 3,
    lasts: [0.1, 3],
    begin: ({ amount }) => {
      const client = new Client({ connectionString: server.url, options: '-c statement_timeout=0' })
      client.on('error', ignore)
      const way = ways[Math.floor(amount * ways.length)] ?? ''
      const locked = client.connect().then(async () => {
        await client.query('begin')
        await client.query(way)
      })
      locked.catch(ignore)
      return () => client.end().catch(ignore)
    },
  }
}

/** Everybody is thrown out, and somebody else is quicker to come back. */
export function full(server: PostgresServer): Fault {
  return {
    kind: 'server: no connections left',
    subjects: ['server 0'],
    lasts: [0.1, 2],
    begin: async () => {
      const taken: Client[] = []
      await order(server, `select pg_terminate_backend(pid) ${ofWorkers}`)
      for (let refused = false; !refused && taken.length < 60; ) {
        const batch = Array.from(
          { length: 10 },
          () => new Client({ host: server.host, port: server.port, user: role, database: 'postgres' }),
        )
        for (const client of batch) client.on('error', ignore)
        const came = await Promise.all(
          batch.map((client) =>
            client.connect().then(
              () => true,
              () => false,
            ),
          ),
        )
        taken.push(...batch)
        refused = came.includes(false)
      }
      return async () => {
        await Promise.all(taken.map((client) => client.end().catch(ignore)))
      }
    },
  }
}
