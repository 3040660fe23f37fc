/** What an administrator tells a PostgreSQL server. */
import { Client } from 'pg'
import type { PostgresServer } from '../../test/support/servers/postgres.js'
import { role } from './postgres-client.js'

const ignore = () => undefined

/** All connections of workers. */
export const ofWorkers: string = `from pg_stat_activity where usename = '${role}' and pid <> pg_backend_pid()`

/** Statements of an administrator, one after the other. One that is down does not hear them, and need not. */
export async function order(server: PostgresServer, ...statements: readonly string[]): Promise<boolean> {
  const client = new Client({ connectionString: server.url, options: '-c statement_timeout=0' })
  client.on('error', ignore)
  try {
    await client.connect()
    for (const statement of statements) await client.query(statement)
    return true
  } catch {
    return false
  } finally {
    await client.end().catch(ignore)
  }
}
