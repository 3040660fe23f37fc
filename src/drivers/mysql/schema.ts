/** The tables, as printed by `migration()` and created on demand. */
import { describe } from '../../core/name.js'
import { parsePrefix } from './options.js'

export interface Tables {
  readonly locks: string
  readonly waiters: string
  /** Rows for `inTransaction()`, separate from the others: they stay locked for as long as a transaction lasts. */
  readonly transactions: string
  readonly cells: string
}

export function tableNames(prefix: string): Tables {
  return {
    locks: `\`${prefix}locks\``,
    waiters: `\`${prefix}waiters\``,
    transactions: `\`${prefix}transactions\``,
    cells: `\`${prefix}cells\``,
  }
}

/**
 * All times are microseconds since 1970 by the server's clock, in UTC: the time zone of a session does not affect them. Names and ids are
 * bytes: no collation affects what is equal.
 */
function locks(prefix: string): string {
  return `CREATE TABLE IF NOT EXISTS \`${prefix}locks\` (
  name       VARBINARY(512)  NOT NULL PRIMARY KEY,
  kind       CHAR(1) CHARACTER SET ascii NOT NULL DEFAULT '-' COMMENT 'how it is held: x exclusive, s shared, p permits, g by a session, - not',
  owner      VARBINARY(64)   NULL     COMMENT 'attempt id of the exclusive holder',
  until      BIGINT          NOT NULL DEFAULT 0 COMMENT 'end of the last of all holds, in us since 1970, UTC',
  token      BIGINT          NOT NULL DEFAULT 0 COMMENT 'newest token given',
  top        BIGINT          NOT NULL DEFAULT 0 COMMENT 'greatest token given or reserved',
  version    BIGINT          NOT NULL DEFAULT 0 COMMENT 'grows whenever a hold begins, is proven or ends',
  ttl        BIGINT          NOT NULL DEFAULT 0 COMMENT 'longest ttl of all holds, in us',
  since      BIGINT          NOT NULL DEFAULT 0,
  sharers    LONGTEXT CHARACTER SET utf8mb4 NULL COMMENT 'JSON: attempt id of each shared or permit holder',
  taken      INT             NOT NULL DEFAULT 0 COMMENT 'shared holders or permits taken',
  permits    INT             NOT NULL DEFAULT 0 COMMENT 'limit of the semaphore',
  line_until BIGINT          NOT NULL DEFAULT 0 COMMENT 'until then somebody waits: newcomers look before they take',
  by_whom    VARBINARY(1024) NULL,
  note       VARBINARY(1024) NULL
) ENGINE=InnoDB`
}

function waiters(prefix: string): string {
  return `CREATE TABLE IF NOT EXISTS \`${prefix}waiters\` (
  id         BIGINT          NOT NULL AUTO_INCREMENT PRIMARY KEY COMMENT 'the ticket: the least one that is fresh goes first',
  name       VARBINARY(512)  NOT NULL,
  attempt    VARBINARY(64)   NOT NULL,
  kind       CHAR(1) CHARACTER SET ascii NOT NULL,
  take       INT             NOT NULL DEFAULT 1,
  permits    INT             NOT NULL DEFAULT 0,
  since      BIGINT          NOT NULL,
  seen       BIGINT          NOT NULL COMMENT 'when it last said that it waits',
  by_whom    VARBINARY(1024) NULL,
  note       VARBINARY(1024) NULL,
  KEY line (name, id),
  UNIQUE KEY attempt (attempt)
) ENGINE=InnoDB`
}

function transactions(prefix: string): string {
  return `CREATE TABLE IF NOT EXISTS \`${prefix}transactions\` (
  name       VARBINARY(512)  NOT NULL PRIMARY KEY,
  token      BIGINT          NOT NULL COMMENT 'newest token given'
) ENGINE=InnoDB`
}

function cells(prefix: string): string {
  return `CREATE TABLE IF NOT EXISTS \`${prefix}cells\` (
  name       VARBINARY(544)  NOT NULL PRIMARY KEY,
  version    BIGINT          NOT NULL DEFAULT 0,
  value      MEDIUMBLOB      NULL     COMMENT 'UTF-8; NULL: removed',
  ends       BIGINT          NOT NULL DEFAULT 0 COMMENT 'end of the value, in us since 1970, UTC',
  id         VARBINARY(64)   NOT NULL DEFAULT x'' COMMENT 'of the change that made it'
) ENGINE=InnoDB`
}

/** One statement per table: the clients send one at a time. */
export function creation(prefix: string): readonly string[] {
  return [locks(prefix), waiters(prefix), transactions(prefix), cells(prefix)]
}

/**
 * What `mysql()` needs in a database. Run it as a user that may create tables; running it again changes nothing.
 * @param options `prefix`: as given to `mysql()`, default `holdfast_`. `user`: the user that is granted the least the driver needs, as
 *   `app` or `app@10.0.0.%`; only rights on these tables.
 * @throws TypeError or RangeError for an invalid prefix or user
 */
export function migration(options: { readonly prefix?: string; readonly user?: string } = {}): string {
  const prefix = parsePrefix(options.prefix ?? 'holdfast_')
  const grants = options.user === undefined ? [] : grantsFor(prefix, options.user)
  return [...creation(prefix), ...grants].map((statement) => `${statement};\n`).join('\n')
}

function grantsFor(prefix: string, user: unknown): readonly string[] {
  const [, name, host = '%'] = /^([^@'`\\\s]{1,32})(?:@([^@'`\\\s]{1,255}))?$/.exec(String(user)) ?? []
  if (name === undefined) {
    throw new RangeError(`mysql: user must be a name or name@host without quotes, got ${describe(user)}`)
  }
  return Object.values(tableNames(prefix)).map(
    (table) => `GRANT SELECT, INSERT, UPDATE, DELETE ON ${table} TO '${name}'@'${host}'`,
  )
}
