/**
 * MySQL and MariaDB: proxies, replica or primary, durability, cluster, time-outs, tables and rights, free connections, clock. Reads
 * variables and explains statements over one connection; changes only the time-out of that connection.
 */
import { type MysqlAddress, mysqlTls, parseMysqlAddress } from '../connect-mysql.js'
import { hostPort } from '../url.js'
import { bad, type Check, noAnswer, ok, unchecked, weak } from './check.js'
import { clockCheck, midway } from './clock.js'
import { encryptionCheck } from './encryption.js'
import { rightsCheck } from './mysql-rights.js'

/** The used part of a connection. */
interface Connection {
  query(statement: string | { sql: string; rowsAsArray: boolean }): Promise<unknown>
  /** Connection id from the greeting of the server, or of a proxy before it. */
  readonly threadId: number
}

/** Timeout of a connection attempt, in ms. */
const timeout = 5_000

type Facts = ReadonlyMap<string, string>

export async function mysqlSetup(url: string, shown: string): Promise<Check[]> {
  const address = parseMysqlAddress(url.slice(url.indexOf(':') + 1), shown)
  const client = await import('mysql2/promise').catch(() => undefined)
  if (client === undefined)
    return [unchecked('set-up', 'mysql2, which this check uses, is not installed', 'npm install mysql2')]
  const { host, port, user, password, database, tls } = address
  const connection = await client
    .createConnection({
      ...{ host, port, user, database, connectTimeout: timeout },
      ...(password !== undefined && { password }),
      ...(tls !== undefined && { ssl: mysqlTls(tls, host) }),
    })
    .catch((error: NodeJS.ErrnoException) => {
      throw error.code === 'ETIMEDOUT'
        ? noAnswer(hostPort({ host, port }), 'a new connection', timeout, error)
        : error
    })
  try {
    const way = { hosts: [host], secure: tls !== undefined, secret: password !== undefined }
    return [...(await runChecks(connection as Connection, address)), encryptionCheck(way)]
  } finally {
    connection.destroy()
  }
}

async function runChecks(connection: Connection, { options, database }: MysqlAddress): Promise<Check[]> {
  const pairs = async (sql: string) => {
    const [rows] = (await connection.query({ sql, rowsAsArray: true })) as [unknown[][]]
    return new Map(rows.map(([name, value]) => [String(name).toLowerCase(), String(value)]))
  }
  // A statement time limit is to be reported, not to end these statements; each server knows one of the two variables.
  for (const limit of ['max_statement_time', 'max_execution_time'])
    await connection.query(`set session ${limit} = 0`).catch(() => undefined)
  const variables = await pairs('show global variables')
  const status = await pairs(`show status like 'Threads_connected'`)
  const asked = `select connection_id(), timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) / 1000`
  const { answer, middle } = await midway(() => connection.query({ sql: asked, rowsAsArray: true }))
  const [rows] = answer as [unknown[][]]
  const [id, now] = rows[0] ?? []
  return [
    version(variables),
    proxy(connection.threadId, Number(id), options.strategy ?? 'row'),
    primary(variables),
    ...cluster(variables),
    durability(variables),
    ...timeouts(variables),
    await rightsCheck(connection, database, options),
    room(variables, Number(status.get('threads_connected') ?? 0)),
    clockCheck(Number(now), middle),
  ]
}

function version(variables: Facts): Check {
  const reply = variables.get('version') ?? 'unknown'
  const [major = 0, minor = 0] = reply.split('.').map((part) => Number.parseInt(part, 10))
  const maria = /mariadb/i.test(reply)
  const found = `${maria ? 'MariaDB' : 'MySQL'} ${reply.split('-')[0]}`
  const fit = maria ? major > 10 || (major === 10 && minor >= 6) : major >= 8
  if (fit) return ok('version', found)
  return bad(
    'version',
    found,
    'the driver needs features that this version lacks',
    'MariaDB 10.6 or MySQL 8, or newer',
  )
}

/** A proxy greets with its own connection id. */
function proxy(greeted: number, id: number, strategy: string): Check {
  const what = 'proxy'
  if (greeted === id) return ok(what, 'none that can be seen: connections go to the server itself')
  const found = 'a proxy stands in between, which may give each statement another connection'
  if (strategy !== 'session') return ok(what, found)
  const means = 'a session lock can be lost while it is held'
  return bad(what, found, means, "?strategy=row in the URL, or the server's own address")
}

const on = (variables: Facts, name: string) => /^(?:on|1)$/i.test(variables.get(name) ?? '')

function primary(variables: Facts): Check {
  const what = 'primary'
  const names = ['read_only', 'super_read_only', 'innodb_read_only', 'transaction_read_only', 'tx_read_only']
  const found = names.find((name) => on(variables, name))
  if (found === undefined) return ok(what, 'it accepts writes')
  return bad(what, `${found} is on: a replica?`, 'no lock can be taken', 'name the primary in the URL')
}

function cluster(variables: Facts): Check[] {
  const galera = on(variables, 'wsrep_on')
  const group = variables.get('group_replication_single_primary_mode')
  if (!galera && group === undefined) return []
  const what = 'cluster'
  if (!galera && on(variables, 'group_replication_single_primary_mode'))
    return [ok(what, 'group replication with a single primary')]
  const means = 'primaries certify at commit: holdfast was not tried there'
  return [weak(what, 'several primaries', means, 'let all locks go to one node')]
}

function durability(variables: Facts): Check {
  const what = 'durability'
  const flush = variables.get('innodb_flush_log_at_trx_commit') ?? 'unknown'
  const found = `innodb_flush_log_at_trx_commit ${flush}`
  if (flush === '1') return ok(what, found, 'a restart forgets nothing')
  const when = flush === '2' ? 'a power cut' : 'a power cut, or the death of the server,'
  const means = `${when} forgets the grants of about the last second, and their locks are granted again; tokens grow all the same`
  return weak(what, found, means, 'innodb_flush_log_at_trx_commit = 1')
}

/** The driver's statement timeout, in ms. */
const minIdleTimeout = 2_000

function timeouts(variables: Facts): Check[] {
  const checks: Check[] = []
  const statement = variables.has('max_statement_time')
    ? (['max_statement_time', 1_000 * Number(variables.get('max_statement_time'))] as const)
    : (['max_execution_time', Number(variables.get('max_execution_time') ?? 0)] as const)
  const [what, ms] = statement
  const found = ms === 0 ? 'none' : `${ms} ms`
  checks.push(
    ms > 0 && ms < minIdleTimeout
      ? weak(
          what,
          found,
          'safe; requests are cut off under load',
          `${what} = 0, or at least ${minIdleTimeout} ms`,
        )
      : ok(what, found),
  )
  if (!on(variables, 'autocommit')) {
    const means = 'what is not committed holds for nobody'
    checks.push(bad('autocommit', 'off', means, 'autocommit = 1 for these connections'))
  }
  const idle = Number(variables.get('wait_timeout') ?? 0)
  const limits = `${idle} s; innodb_lock_wait_timeout ${variables.get('innodb_lock_wait_timeout')} s`
  const means =
    'a client that stalls inside inTransaction(), or in a transaction on the rows of holdfast, keeps them locked for that long'
  checks.push(ok('wait_timeout', limits, means))
  return checks
}

function room(variables: Facts, used: number): Check {
  const what = 'connections'
  const most = Number(variables.get('max_connections') ?? 0)
  const found = `${used} of ${most} are in use`
  if (used <= 0.8 * most) return ok(what, found)
  return weak(
    what,
    found,
    'a client that gets no connection waits, even to renew a lock it holds',
    'a greater max_connections',
  )
}
