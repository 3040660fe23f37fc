/**
 * Which database the tables are in: the one that the options of the pool name. An application that shares its pool may have left the
 * connection in another (`USE tenant`), where the same statement would find other tables, or create them, and let a second holder in.
 */
import type { MysqlPool } from './client.js'

/** The parts of a pool, or of a connection, of either client that have the options it was made with. */
interface Configured {
  /** mysql2: of a pool, and of the pool under its promise flavour. */
  readonly pool?: Configured
  readonly config?: {
    readonly database?: unknown
    readonly connectionConfig?: { readonly database?: unknown }
  }
  /** mysql2: the connection under its promise flavour. */
  readonly connection?: Configured
  /** mariadb: what its pool reports with `acquire`. */
  readonly opts?: { readonly database?: unknown }
}

/**
 * Without a connection only mysql2 knows the database. @param given a connection of the pool @param bare the object under it, where the client has one
 * @returns undefined: the options name none, or the client does not show them
 */
export function configuredDatabase(pool: MysqlPool, given?: unknown, bare?: unknown): string | undefined {
  const { config } = (pool as Configured).pool ?? (pool as Configured)
  const found =
    config?.connectionConfig?.database ??
    (bare as Configured | undefined)?.opts?.database ??
    (given as Configured | undefined)?.connection?.config?.database
  return typeof found === 'string' && found !== '' ? found : undefined
}

const quoted = (name: string) => `\`${name.replaceAll('`', '``')}\``

export const useDatabase = (database: string): string => `USE ${quoted(database)}`

/**
 * Makes any statement independent of the database its connection is in. Nothing else in it can look like a table or `DATABASE()`:
 * texts are written in hexadecimal.
 * @param database as `DATABASE()` would return it
 */
export function qualifier(prefix: string, database: string): (statement: string) => string {
  const tables = new RegExp(`\`${prefix}(?=(?:locks|waiters|transactions|cells)\`)`, 'g')
  const literal = `CONVERT(x'${Buffer.from(database).toString('hex')}' USING utf8mb4)`
  const place = `${quoted(database)}.`
  return (statement) =>
    statement.replace(tables, (table) => place + table).replaceAll('DATABASE()', () => literal)
}
