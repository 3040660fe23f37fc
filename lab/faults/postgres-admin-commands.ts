/** An administrator's commands to a PostgreSQL server. */
import { Client } from 'pg'
import type { PostgresServer } from '../../test/support/servers/postgres.js'
import { role } from './postgres-client.js'

const ignore = () => undefined

/** All connections of workers. */
export const ofWorkers: string = `from pg_stat_activity where usename = '${role}' and pid <> pg_backend_pid()`

/** Runs an administrator's statements in sequence. A server that is down does not execute them, which is fine. */
export async function adminCommand(
  server: PostgresServer,
  ...statements: readonly string[]
): Promise<boolean> {
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
