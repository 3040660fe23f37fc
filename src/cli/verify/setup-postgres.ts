/**
 * PostgreSQL: a pooler in between, standby or primary, durability, time-outs, tables and rights, connections left, clock. Reads
 * settings and catalogues over two connections of its own; changes nothing.
 */
import { type PostgresPlace, postgresPlace } from '../connect-postgres.js'
import type { Check } from './setup.js'
import { clockCheck, midway } from './setup-clock.js'

/** What is used of a connection. */
interface Client {
  query(text: string, values?: unknown[]): Promise<{ readonly rows: readonly Record<string, unknown>[] }>
  /** What the server, or what stands before it, greeted with. */
  readonly processID?: number | null
}

type Facts = Readonly<Record<string, string>>

const tables = ['locks', 'waiters', 'holds', 'cells', 'watchers'].map((name) => `holdfast_${name}`)

const facts = `select current_setting('server_version') as version, current_setting('server_version_num') as number,
  pg_is_in_recovery()::text as standby, current_setting('transaction_read_only') as read_only, current_setting('fsync') as fsync,
  current_setting('synchronous_commit') as commit, current_setting('synchronous_standby_names') as synchronous,
  (select count(*) from pg_stat_replication)::text as standbys,
  (select setting from pg_settings where name = 'statement_timeout') as statement,
  (select setting from pg_settings where name = 'idle_session_timeout') as idle,
  current_setting('idle_in_transaction_session_timeout') as open, current_setting('max_connections') as most,
  (select count(*) from pg_stat_activity where backend_type = 'client backend')::text as used,
  (extract(epoch from clock_timestamp()) * 1000)::text as now`

const rights = `select t.name, to_regclass(format('%I.%I', $1::text, t.name)) is not null as there,
  coalesce((select bool_and(has_table_privilege(to_regclass(format('%I.%I', $1::text, t.name)), p))
    from unnest(array['select', 'insert', 'update', 'delete']) p), false) as able
  from unnest($2::text[]) t(name)`

export async function postgresSetup(url: string, shown: string): Promise<Check[]> {
  const place = postgresPlace(url.slice(url.indexOf(':') + 1), shown)
  const pg = await import('pg').catch(() => undefined)
  if (pg === undefined) {
    const remedy = 'npm install pg'
    return [{ what: 'set-up', verdict: 'not checked', found: 'pg is not installed', remedy }]
  }
  const { host, port, user, password, database, tls } = place
  const settings = { host, port, user, password, database, ssl: tls, connectionTimeoutMillis: 5_000 }
  const clients = [new pg.default.Client(settings), new pg.default.Client(settings)] as const
  for (const client of clients) client.on('error', () => undefined)
  try {
    await Promise.all(clients.map((client) => client.connect()))
    return await looked(clients as unknown as readonly [Client, Client], place)
  } finally {
    await Promise.all(clients.map((client) => client.end().catch(() => undefined)))
  }
}

async function looked([one, other]: readonly [Client, Client], place: PostgresPlace): Promise<Check[]> {
  const way = await pooler(one, other, place)
  const { answer, middle } = await midway(() => one.query(facts))
  const found = answer.rows[0] as unknown as Facts
  const { schema = 'public' } = place.options
  const able = (await one.query(rights, [schema, tables])).rows as unknown as {
    name: string
    there: boolean
    able: boolean
  }[]
  return [
    version(found),
    way,
    primary(found),
    durability(found),
    ...standbys(found),
    ...timeouts(found, place.options.strategy ?? 'row'),
    schemaCheck(able),
    room(found),
    clockCheck(Number(found['now']), middle),
  ]
}

function version({ version = '', number }: Facts): Check {
  const check = { what: 'version', found: `PostgreSQL ${version}` }
  if (Number(number) >= 140_000) return { ...check, verdict: 'ok' }
  return { ...check, verdict: 'bad', remedy: 'PostgreSQL 14 or newer is needed' }
}

/** A pooler tells its clients another process number than the server's own. */
async function pooler(one: Client, other: Client, { options }: PostgresPlace): Promise<Check> {
  const what = 'pooler'
  const pids: number[] = []
  for (const client of [one, other]) {
    pids.push(Number((await client.query('select pg_backend_pid() as pid')).rows[0]?.['pid']))
  }
  if (one.processID === pids[0])
    return { what, verdict: 'ok', found: 'none: connections go to the server itself' }
  const shared = pids[0] === pids[1]
  const mode = shared
    ? 'transaction mode: two clients were on one connection'
    : 'in session mode, as far as can be seen'
  const found = `a pooler stands in between, ${mode}`
  if (options.strategy === 'session') {
    return { what, verdict: 'bad', found, remedy: "strategy=row, or the server's own address" }
  }
  if (!shared || options.listen === false) return { what, verdict: 'ok', found }
  const remedy = 'listen=false, or in a program `listen: directPool`'
  return { what, verdict: 'bad', found: `${found}; LISTEN hears nothing there`, remedy }
}

function primary({ standby, read_only: readOnly }: Facts): Check {
  const what = 'primary'
  if (standby === 'true') {
    return { what, verdict: 'bad', found: 'this server is a standby', remedy: 'name the primary' }
  }
  if (readOnly === 'on') {
    const found = 'transactions are read-only by default'
    return { what, verdict: 'bad', found, remedy: 'default_transaction_read_only = off for this role' }
  }
  return { what, verdict: 'ok', found: 'it takes writes' }
}

function durability({ fsync, commit = '' }: Facts): Check {
  const what = 'durability'
  if (fsync !== 'on') {
    const found = 'fsync is off: a power cut forgets grants, and may ruin all data'
    return { what, verdict: 'weak', found, remedy: 'fsync = on' }
  }
  const relaxed = commit === 'off' || commit === 'local'
  const found = `fsync on, synchronous_commit ${commit}${relaxed ? '; commits of locks are waited for all the same' : ''}`
  return { what, verdict: 'ok', found }
}

function standbys({ standbys, synchronous = '' }: Facts): Check[] {
  const count = Number(standbys)
  if (count === 0) return []
  const what = 'standbys'
  if (synchronous !== '') return [{ what, verdict: 'ok', found: `${count}, commits wait for ${synchronous}` }]
  const found = `${count}, commits wait for none: a fail-over can lose the newest grants; tokens grow all the same`
  return [{ what, verdict: 'weak', found, remedy: 'synchronous_standby_names' }]
}

/** What the driver allows itself to wait for a row, in ms. */
const rowWait = 1_500

function timeouts({ statement, idle, open }: Facts, strategy: string): Check[] {
  const checks: Check[] = []
  const short = Number(statement)
  checks.push(
    short > 0 && short < rowWait
      ? {
          ...{
            what: 'statement_timeout',
            verdict: 'weak',
            found: `${short} ms: requests are cut off under load`,
          },
          remedy: `at least ${rowWait} ms for this role`,
        }
      : { what: 'statement_timeout', verdict: 'ok', found: short === 0 ? 'none' : `${short} ms` },
  )
  const silent = Number(idle)
  if (strategy === 'row' && silent > 0 && silent < 60_000) {
    const found = `${silent} ms: the connection that listens is closed again and again, and waiters find out by asking`
    checks.push({ what: 'idle_session_timeout', verdict: 'weak', found, remedy: '0 for this role' })
  }
  const found =
    open === '0'
      ? 'none: who stops inside inTransaction(), or in a transaction on the rows of holdfast, keeps them until its connection ends'
      : `${open}: also the longest section under inTransaction() that waits for its program`
  checks.push({ what: 'idle_in_transaction_session_timeout', verdict: 'ok', found })
  return checks
}

function schemaCheck(rows: readonly { name: string; there: boolean; able: boolean }[]): Check {
  const what = 'tables and rights'
  const absent = rows.filter(({ there }) => !there).map(({ name }) => name)
  if (absent.length > 0) {
    const found = `there is no ${absent.join(', no ')}`
    return { what, verdict: 'bad', found, remedy: 'run what `holdfast schema` prints' }
  }
  const barred = rows.filter(({ able }) => !able).map(({ name }) => name)
  if (barred.length === 0)
    return { what, verdict: 'ok', found: `${rows.length} tables, and the rights to use them` }
  const found = `this role may not read and write ${barred.join(', ')}`
  return { what, verdict: 'bad', found, remedy: '`holdfast schema --role NAME` prints what it needs' }
}

function room({ used, most }: Facts): Check {
  const what = 'connections'
  const found = `${used} of ${most} are in use`
  if (Number(used) <= 0.8 * Number(most)) return { what, verdict: 'ok', found }
  const remedy = 'a greater max_connections, or a pooler for the application'
  return { what, verdict: 'weak', found: `${found}: who gets none waits`, remedy }
}
