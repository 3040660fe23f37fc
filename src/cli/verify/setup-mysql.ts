/**
 * MySQL and MariaDB: a proxy in between, replica or primary, durability, cluster, time-outs, tables and rights, connections left, clock.
 * Reads variables and explains statements over one connection; changes nothing but the time-out of that connection.
 */
import { type MysqlPlace, mysqlPlace } from '../connect-mysql.js'
import type { Check } from './setup.js'
import { clockCheck, midway } from './setup-clock.js'

/** What is used of a connection. */
interface Connection {
  query(statement: string | { sql: string; rowsAsArray: boolean }): Promise<unknown>
  /** What the server, or what stands before it, greeted with. */
  readonly threadId: number
}

type Facts = ReadonlyMap<string, string>

export async function mysqlSetup(url: string, shown: string): Promise<Check[]> {
  const place = mysqlPlace(url.slice(url.indexOf(':') + 1), shown)
  const client = await import('mysql2/promise').catch(() => undefined)
  if (client === undefined) {
    const remedy = 'npm install mysql2'
    return [{ what: 'set-up', verdict: 'not checked', found: 'mysql2 is not installed', remedy }]
  }
  const { host, port, user, password, database, tls } = place
  const connection = await client.createConnection({
    ...{ host, port, user, database, connectTimeout: 5_000 },
    ...(password !== undefined && { password }),
    ...(tls && { ssl: {} }),
  })
  try {
    return await looked(connection as Connection, place)
  } finally {
    connection.destroy()
  }
}

async function looked(connection: Connection, { options }: MysqlPlace): Promise<Check[]> {
  const pairs = async (sql: string) => {
    const [rows] = (await connection.query({ sql, rowsAsArray: true })) as [unknown[][]]
    return new Map(rows.map(([name, value]) => [String(name).toLowerCase(), String(value)]))
  }
  // A limit on statements is to be told of, not to end these; one of the two is known to each server.
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
    await rights(connection, options.prefix ?? 'holdfast_'),
    room(variables, Number(status.get('threads_connected') ?? 0)),
    clockCheck(Number(now), middle),
  ]
}

function version(variables: Facts): Check {
  const said = variables.get('version') ?? 'unknown'
  const [major = 0, minor = 0] = said.split('.').map((part) => Number.parseInt(part, 10))
  const maria = /mariadb/i.test(said)
  const check = { what: 'version', found: `${maria ? 'MariaDB' : 'MySQL'} ${said.split('-')[0]}` }
  const fit = maria ? major > 10 || (major === 10 && minor >= 6) : major >= 8
  if (fit) return { ...check, verdict: 'ok' }
  return { ...check, verdict: 'bad', remedy: 'MariaDB 10.6 or MySQL 8, or newer, is needed' }
}

/** A proxy greets with a number of its own. */
function proxy(greeted: number, id: number, strategy: string): Check {
  const what = 'proxy'
  if (greeted === id)
    return { what, verdict: 'ok', found: 'none that can be seen: connections go to the server itself' }
  const found = 'a proxy stands in between, which may give each statement another connection'
  if (strategy !== 'session') return { what, verdict: 'ok', found }
  return { what, verdict: 'bad', found, remedy: "strategy=row, or the server's own address" }
}

const on = (variables: Facts, name: string) => /^(?:on|1)$/i.test(variables.get(name) ?? '')

function primary(variables: Facts): Check {
  const what = 'primary'
  const names = ['read_only', 'super_read_only', 'innodb_read_only', 'transaction_read_only', 'tx_read_only']
  const found = names.find((name) => on(variables, name))
  if (found === undefined) return { what, verdict: 'ok', found: 'it takes writes' }
  return { what, verdict: 'bad', found: `${found} is on: a replica?`, remedy: 'name the primary' }
}

function cluster(variables: Facts): Check[] {
  const galera = on(variables, 'wsrep_on')
  const group = variables.get('group_replication_single_primary_mode')
  if (!galera && group === undefined) return []
  const what = 'cluster'
  if (!galera && on(variables, 'group_replication_single_primary_mode')) {
    return [{ what, verdict: 'ok', found: 'group replication with a single primary' }]
  }
  const found = 'several primaries, which certify at commit: holdfast was not tried there'
  return [{ what, verdict: 'weak', found, remedy: 'let all locks go to one node' }]
}

function durability(variables: Facts): Check {
  const what = 'durability'
  const flush = variables.get('innodb_flush_log_at_trx_commit') ?? 'unknown'
  const found = `innodb_flush_log_at_trx_commit ${flush}`
  if (flush === '1') return { what, verdict: 'ok', found }
  const lost = flush === '2' ? 'a power cut forgets' : 'a power cut, or the death of the server, forgets'
  return {
    what,
    verdict: 'weak',
    found: `${found}: ${lost} the grants of about the last second; tokens grow all the same`,
    remedy: 'innodb_flush_log_at_trx_commit = 1',
  }
}

/** What the driver gives a statement, in ms. */
const patience = 2_000

function timeouts(variables: Facts): Check[] {
  const checks: Check[] = []
  const statement = variables.has('max_statement_time')
    ? (['max_statement_time', 1_000 * Number(variables.get('max_statement_time'))] as const)
    : (['max_execution_time', Number(variables.get('max_execution_time') ?? 0)] as const)
  const [what, ms] = statement
  const cut = ms > 0 && ms < patience
  checks.push(
    cut
      ? {
          what,
          verdict: 'weak',
          found: `${ms} ms: requests are cut off under load`,
          remedy: `0, or at least ${patience} ms`,
        }
      : { what, verdict: 'ok', found: ms === 0 ? 'none' : `${ms} ms` },
  )
  if (!on(variables, 'autocommit')) {
    const found = 'off: what is not committed holds for nobody'
    checks.push({ what: 'autocommit', verdict: 'bad', found, remedy: 'autocommit = 1 for these connections' })
  }
  const idle = Number(variables.get('wait_timeout') ?? 0)
  const found = `${idle} s: so long who stops inside inTransaction(), or in a transaction on the rows of holdfast, keeps them; innodb_lock_wait_timeout ${variables.get('innodb_lock_wait_timeout')} s`
  checks.push({ what: 'wait_timeout', verdict: 'ok', found })
  return checks
}

/** To explain a statement takes the right to run it. */
async function rights(connection: Connection, prefix: string): Promise<Check> {
  const what = 'tables and rights'
  const names = { locks: 'name', waiters: 'attempt', cells: 'name', transactions: 'name' }
  const missing: string[] = []
  for (const [name, column] of Object.entries(names)) {
    const table = `\`${prefix}${name}\``
    const none = `where ${column} = ''`
    const verbs = [
      `select * from ${table} ${none}`,
      `insert into ${table} (${column}) values ('')`,
      `update ${table} set ${column} = '' ${none}`,
      `delete from ${table} ${none}`,
    ]
    for (const verb of verbs) {
      const why = await connection.query(`explain ${verb}`).then(
        () => undefined,
        (error: { message?: string }) => error.message ?? String(error),
      )
      if (why !== undefined) missing.push(why)
    }
  }
  if (missing.length === 0) return { what, verdict: 'ok', found: '4 tables, and the rights to use them' }
  return { what, verdict: 'bad', found: missing[0] ?? '', remedy: 'run what `holdfast schema` prints' }
}

function room(variables: Facts, used: number): Check {
  const what = 'connections'
  const most = Number(variables.get('max_connections') ?? 0)
  const found = `${used} of ${most} are in use`
  if (used <= 0.8 * most) return { what, verdict: 'ok', found }
  return {
    what,
    verdict: 'weak',
    found: `${found}: who gets none waits`,
    remedy: 'a greater max_connections',
  }
}
