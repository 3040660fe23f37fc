/** An administrator's commands to a MySQL or MariaDB server. */
import type { MysqlServer } from '../../test/support/servers/mysql.js'
import { user } from './mysql-client.js'

/** Runs an administrator's statements. A server that is down does not execute them, which is fine. */
export async function adminCommand(server: MysqlServer, ...statements: readonly string[]): Promise<boolean> {
  try {
    for (const statement of statements) await server.query(statement)
    return true
  } catch {
    return false
  }
}

async function workers(server: MysqlServer): Promise<readonly number[]> {
  const rows = await server
    .query(`select id from information_schema.processlist where user = '${user}'`)
    .catch(() => [])
  return rows.map((row) => Number(row['id'] ?? row['ID']))
}

/** @param what `connection` or `query` */
export async function kill(server: MysqlServer, what: 'connection' | 'query', share = 1): Promise<void> {
  const ids = (await workers(server)).filter(() => Math.random() < share)
  await Promise.all(ids.map((id) => adminCommand(server, `kill ${what} ${id}`)))
}
