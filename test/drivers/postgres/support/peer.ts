// One process's worth of holdfast on a server: a pool of its own, the locks. Everything is closed at the end of the test.
import type { TestContext } from 'node:test'
import { Pool, type PoolConfig } from 'pg'
import type { Clock } from '../../../../src/core/clock.js'
import { createLocks, type Locks } from '../../../../src/create-locks.js'
import { type PostgresOptions, postgres } from '../../../../src/drivers/postgres/index.js'
import { startProxy, type TcpProxy } from '../../../support/proxy.js'
import type { PostgresServer } from '../../../support/servers/postgres.js'
import { until } from '../../../support/until.js'

export interface Peer {
  readonly pool: Pool
  readonly locks: Locks
  close(): Promise<void>
}

export interface PeerOptions extends Omit<PostgresOptions, 'pool'> {
  readonly config?: PoolConfig
  /** The default ttl of its locks. */
  readonly ttl?: number
  /** It looks at nothing by itself for as long as a waiter would that is told: what it does is what it learns of. */
  readonly onlyTold?: boolean
  /** It draws nothing: what is done now and then is done at its first statement. */
  readonly eager?: boolean
}

/** @param t closes it when the test ends */
export function peer(
  t: TestContext,
  port: number,
  { config, ttl, onlyTold = false, eager = false, ...options }: PeerOptions = {},
): Peer {
  const pool = new Pool({ host: '127.0.0.1', port, user: 'postgres', database: 'postgres', ...config })
  pool.on('error', () => undefined)
  const made = postgres({ pool, ...options } as PostgresOptions)
  const locks = createLocks(
    (env) =>
      made({
        ...env,
        ...(onlyTold && { clock: withoutLooks(env.clock) }),
        ...(eager && { random: () => 0 }),
      }),
    ttl === undefined ? {} : { ttl },
  )
  let closed: Promise<void> | undefined
  const close = () => {
    closed ??= locks.close().then(() => pool.end())
    return closed
  }
  t.after(close)
  return { pool, locks, close }
}

/** Timers of more than three seconds never fire; a look is due after four at the soonest. */
function withoutLooks(clock: Clock): Clock {
  const never = () => undefined
  return {
    ...clock,
    at: (at, fn, options) => (at - clock.now() > 3_000 ? never : clock.at(at, fn, options)),
  }
}

/** A peer behind a cable. */
export async function cabled(
  t: TestContext,
  server: PostgresServer,
  options: PeerOptions = {},
): Promise<Peer & { readonly cable: TcpProxy }> {
  const cable = await startProxy({ port: server.port })
  const made = peer(t, cable.port, options)
  t.after(() => cable.stop())
  return { ...made, cable }
}

/** Resolves once `count` are queued. */
export async function inLine(locks: Locks, name: string, count: number): Promise<void> {
  await until(async () => (await locks.inspect(name)).waiters.length === count, {
    what: `${count} queued for ${name}`,
  })
}

/** Connections the server has from clients, but for the one that asks. */
export async function connections(server: PostgresServer): Promise<number> {
  const [row] = await server.sql(
    `select count(*)::int as n from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()`,
  )
  return Number(row?.['n'])
}

/** Ends every connection to the server but the one that asks. Resolves with how many, once they have ended and their clients can know. */
export async function terminateAll(server: PostgresServer): Promise<number> {
  const rows = await server.sql(
    `select pid, pg_terminate_backend(pid) from pg_stat_activity
     where backend_type = 'client backend' and pid <> pg_backend_pid()`,
  )
  const pids = rows.map(({ pid }) => pid)
  const left = async () =>
    (await server.sql('select from pg_stat_activity where pid = any($1)', [pids])).length
  await until(async () => (await left()) === 0, { what: 'the connections to end' })
  return pids.length
}
