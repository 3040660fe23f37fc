/**
 * PostgreSQL: poolers, standby or primary, durability, time-outs, tables and rights, free connections, clock. Reads settings and catalogues
 * over two connections of its own; changes nothing.
 */
import { type PostgresAddress, parsePostgresAddress, postgresTls } from '../connect-postgres.js'
import { hostPort } from '../url.js'
import { bad, type Check, noAnswer, ok, unchecked, weak } from './check.js'
import { clockCheck, midway } from './clock.js'
import { encryptionCheck } from './encryption.js'
import { rightsCheck } from './postgres-rights.js'

/** The used part of a connection. */
interface Client {
  query(text: string, values?: unknown[]): Promise<{ readonly rows: readonly Record<string, unknown>[] }>
  /** Process id from the greeting of the server, or of a pooler before it. */
  readonly processID?: number | null
}

type Facts = Readonly<Record<string, string>>

/** Timeout of a connection attempt and of a reply, in ms. */
const timeout = 5_000

const facts = `select current_setting('server_version') as version, current_setting('server_version_num') as number,
  pg_is_in_recovery()::text as standby, current_setting('transaction_read_only') as read_only, current_setting('fsync') as fsync,
  current_setting('synchronous_commit') as commit, current_setting('synchronous_standby_names') as synchronous,
  (select count(*) from pg_stat_replication)::text as standbys,
  (select setting from pg_settings where name = 'statement_timeout') as statement,
  (select setting from pg_settings where name = 'idle_session_timeout') as idle,
  current_setting('idle_in_transaction_session_timeout') as open, current_setting('max_connections') as most,
  (select sum(numbackends) from pg_stat_database)::text as used,
  (extract(epoch from clock_timestamp()) * 1000)::text as now`

export async function postgresSetup(url: string, shown: string): Promise<Check[]> {
  const address = parsePostgresAddress(url.slice(url.indexOf(':') + 1), shown)
  const pg = await import('pg').catch(() => undefined)
  if (pg === undefined)
    return [unchecked('set-up', 'pg, which this check uses, is not installed', 'npm install pg')]
  const { host, port, user, password, database, tls } = address
  const settings = {
    host,
    port,
    user,
    password,
    database,
    ssl: tls && (await postgresTls(tls, host)),
    connectionTimeoutMillis: timeout,
    query_timeout: timeout,
  }
  const clients = [new pg.default.Client(settings), new pg.default.Client(settings)] as const
  for (const client of clients) client.on('error', () => undefined)
  try {
    await Promise.all(clients.map((client) => client.connect())).catch((error: Error) => {
      throw /timeout expired|connection timeout/.test(error.message)
        ? noAnswer(hostPort({ host, port }), 'a new connection', timeout, error)
        : error
    })
    const way = { hosts: [host], secure: tls !== undefined, secret: password !== undefined }
    return [
      ...(await runChecks(clients as unknown as readonly [Client, Client], address)),
      encryptionCheck(way),
    ]
  } finally {
    await Promise.all(clients.map((client) => client.end().catch(() => undefined)))
  }
}

async function runChecks(
  [one, other]: readonly [Client, Client],
  address: PostgresAddress,
): Promise<Check[]> {
  const way = await pooler(one, other, address)
  const { answer, middle } = await midway(() => one.query(facts))
  const found = answer.rows[0] as unknown as Facts
  return [
    version(found),
    way,
    primary(found),
    durability(found),
    ...standbys(found),
    ...timeouts(found, address.options.strategy ?? 'row'),
    await rightsCheck(one, address.options),
    room(found),
    clockCheck(Number(found['now']), middle),
  ]
}

function version({ version = '', number }: Facts): Check {
  const found = `PostgreSQL ${version}`
  if (Number(number) >= 140_000) return ok('version', found)
  return bad('version', found, 'the driver needs features that this version lacks', 'PostgreSQL 14 or newer')
}

/** A pooler reports to its clients a process id other than the server's. */
async function pooler(one: Client, other: Client, { options }: PostgresAddress): Promise<Check> {
  const what = 'pooler'
  const pids: number[] = []
  for (const client of [one, other]) {
    pids.push(Number((await client.query('select pg_backend_pid() as pid')).rows[0]?.['pid']))
  }
  if (one.processID === pids[0]) return ok(what, 'none: connections go to the server itself')
  const shared = pids[0] === pids[1]
  const mode = shared
    ? 'transaction mode: two clients were on one connection'
    : 'in session mode, as far as can be seen'
  const found = `a pooler stands in between, ${mode}`
  if (options.strategy === 'session') {
    const means = 'a session lock can be lost while it is held, or be kept by another client'
    return bad(what, found, means, "?strategy=row in the URL, or the server's own address")
  }
  if (!shared) return ok(what, found)
  if (options.listen === false) return ok(what, found, 'waiters poll, because LISTEN receives nothing there')
  const remedy = '?listen=false in the URL; in a program `listen: directPool`'
  return bad(what, found, 'LISTEN receives nothing there: waiters are not notified', remedy)
}

function primary({ standby, read_only: readOnly }: Facts): Check {
  const what = 'primary'
  if (standby === 'true')
    return bad(what, 'this server is a standby', 'no lock can be taken', 'name the primary in the URL')
  if (readOnly === 'on') {
    const found = 'transactions are read-only by default'
    return bad(what, found, 'no lock can be taken', 'default_transaction_read_only = off for this role')
  }
  return ok(what, 'it accepts writes')
}

function durability({ fsync, commit = '' }: Facts): Check {
  const what = 'durability'
  const found = `fsync ${fsync}, synchronous_commit ${commit}`
  if (fsync !== 'on') {
    const means = 'a power cut forgets grants, whose locks are granted again, and may ruin all data'
    return weak(what, found, means, 'fsync = on')
  }
  const relaxed = commit === 'off' || commit === 'local'
  return ok(
    what,
    found,
    relaxed ? 'commits of locks are waited for all the same' : 'a restart forgets nothing',
  )
}

function standbys({ standbys, synchronous = '' }: Facts): Check[] {
  const count = Number(standbys)
  if (count === 0) return []
  const what = 'standbys'
  if (synchronous !== '') return [ok(what, `${count}, commits wait for ${synchronous}`)]
  const means =
    'a fail-over can lose the newest grants, and their locks are granted again; tokens follow the clock of the new server'
  return [weak(what, `${count}, commits wait for none`, means, 'synchronous_standby_names')]
}

/** How long the driver lets a statement wait for a row, in ms. */
const rowWait = 1_500

function timeouts({ statement, idle, open }: Facts, strategy: string): Check[] {
  const checks: Check[] = []
  const short = Number(statement)
  const limit = short === 0 ? 'none' : `${short} ms`
  checks.push(
    short > 0 && short < rowWait
      ? weak(
          'statement_timeout',
          limit,
          'safe; requests are cut off under load',
          `statement_timeout of at least ${rowWait} ms for this role`,
        )
      : ok('statement_timeout', limit),
  )
  const silent = Number(idle)
  if (strategy === 'row' && silent > 0 && silent < 60_000) {
    const means =
      'safe; the connection that listens is closed again and again, and waiters find out by asking'
    const remedy = 'idle_session_timeout = 0 for this role'
    checks.push(weak('idle_session_timeout', `${silent} ms`, means, remedy))
  }
  const what = 'idle_in_transaction_session_timeout'
  const means =
    open === '0'
      ? 'a client that stalls inside inTransaction(), or in a transaction on the rows of holdfast, keeps them locked until its connection ends'
      : 'also the longest section under inTransaction() that waits for its program'
  checks.push(ok(what, open === '0' ? 'none' : `${open}`, means))
  return checks
}

function room({ used, most }: Facts): Check {
  const what = 'connections'
  const found = `${used} of ${most} are in use`
  if (Number(used) <= 0.8 * Number(most)) return ok(what, found)
  const remedy = 'a greater max_connections, or a pooler for the application'
  return weak(what, found, 'a client that gets no connection waits, even to renew a lock it holds', remedy)
}
