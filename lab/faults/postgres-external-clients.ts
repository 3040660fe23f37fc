/** Interference by other clients of the same PostgreSQL server. */
import { Client } from 'pg'
import type { PostgresServer } from '../../test/support/servers/postgres.js'
import { externalTransactions, connectionsTaken as fullOf } from './external-clients.js'
import { adminCommand, ofWorkers } from './postgres-admin-commands.js'
import { role } from './postgres-client.js'
import type { Fault } from './store.js'

const ignore = () => undefined

export function externalClient(server: PostgresServer): Fault {
  const ways = [
    'select * from holdfast_locks order by name for update',
    'lock table holdfast_locks in share mode',
    'lock table holdfast_waiters in access exclusive mode',
    'select * from holdfast_locks order by random() limit 1 for update',
  ]
  return externalTransactions(ways, (way) => {
    const client = new Client({ connectionString: server.url, options: '-c statement_timeout=0' })
    client.on('error', ignore)
    const locked = client.connect().then(async () => {
      await client.query('begin')
      await client.query(way)
    })
    locked.catch(ignore)
    return () => client.end().catch(ignore)
  })
}

export function connectionsTaken(server: PostgresServer): Fault {
  const { host, port } = server
  const connect = async () => {
    const client = new Client({ host, port, user: role, database: 'postgres' })
    client.on('error', ignore)
    await client.connect()
    return client
  }
  return fullOf(
    () => adminCommand(server, `select pg_terminate_backend(pid) ${ofWorkers}`),
    connect,
    (client) => client.end().catch(ignore),
  )
}
