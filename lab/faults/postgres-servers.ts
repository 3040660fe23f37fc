/** What can be done to a PostgreSQL server, for both strategies. */
import { type PostgresServer, startPostgres } from '../../test/support/servers/postgres.js'
import { until } from '../../test/support/until.js'
import { ofWorkers, order } from './postgres-orders.js'
import { full, stranger } from './postgres-strangers.js'
import type { Act, Fault } from './store.js'
import { again, inTurn } from './turns.js'

/** Small enough to be used up, and durable: what a kill or a power cut leaves is all that was acknowledged. */
export const startLabServer = (): Promise<PostgresServer> =>
  startPostgres({
    preload: ['clock', 'redo'],
    settings: { max_connections: '60', superuser_reserved_connections: '5', fsync: 'on' },
  })

const ignore = () => undefined
const subjects = ['server 0']

/** The connections that listen: the first one of each worker, or the one it has for that alone. */
const listening = `from (select distinct on (application_name) pid, application_name ${ofWorkers}
  order by application_name, backend_start) first
  where application_name like '% ear' or not exists
    (select from pg_stat_activity e where e.application_name = first.application_name || ' ear')`

function told(kind: string, server: PostgresServer, statement: string, weight = 1): Fault {
  return {
    kind: `server: ${kind}`,
    subjects,
    weight,
    lasts: [0.05, 0.1],
    begin: async () => {
      await order(server, statement)
      return undefined
    },
  }
}

/** A setting of the server that everybody has at once, also on connections that are open. */
function setting(kind: string, server: PostgresServer, name: string, value: string): Fault {
  const reload = 'select pg_reload_conf()'
  return {
    kind: `server: ${kind}`,
    subjects,
    lasts: [0.2, 2],
    begin: async () => {
      await order(server, `alter system set ${name} = ${value}`, reload)
      // It must not stay so for ever.
      const what = `${name} to be reset`
      return () =>
        until(() => order(server, `alter system reset ${name}`, reload), { within: 20_000, what }).then(
          ignore,
        )
    },
  }
}

/** Data survive all of these, and no clock moves. */
export function postgresFaults(server: PostgresServer): Fault[] {
  return inTurn([
    {
      kind: 'server: pause',
      subjects,
      weight: 2,
      begin: () => {
        server.pause()
        return () => server.resume()
      },
    },
    {
      kind: 'server: kill and start again',
      subjects,
      lasts: [0.05, 1],
      begin: async () => {
        await server.kill9()
        return () => server.restart()
      },
    },
    {
      kind: 'server: power cut',
      subjects,
      lasts: [0.05, 1],
      begin: async () => {
        await server.powerCut()
        return () => server.restart()
      },
    },
    told('kill connections', server, `select pg_terminate_backend(pid) ${ofWorkers}`, 2),
    told(
      'kill some connections',
      server,
      `select pg_terminate_backend(pid) ${ofWorkers} and random() < 0.4`,
      2,
    ),
    told('kill listeners', server, `select pg_terminate_backend(pid) ${listening}`, 2),
    {
      kind: 'server: cancel statements',
      subjects,
      lasts: [0.1, 1],
      begin: () =>
        again(15, () => order(server, `select pg_cancel_backend(pid) ${ofWorkers} and state = 'active'`)),
    },
    setting('short statement_timeout', server, 'statement_timeout', "'5ms'"),
    setting('short idle_session_timeout', server, 'idle_session_timeout', "'30ms'"),
    setting('read-only', server, 'default_transaction_read_only', 'on'),
    full(server),
    stranger(server),
    {
      kind: 'idle rows are reaped',
      subjects: ['reaper'],
      weight: 2,
      lasts: [0.5, 3],
      begin: () => again(25, () => order(server, 'select holdfast_reap_v1(200000)')),
    },
  ])
}

/** `by`: -1 back, 1 ahead, in ttls up to ten. It stays so. */
export function clockJump(server: PostgresServer, by: -1 | 1): Fault {
  return {
    kind: by < 0 ? 'server: clock back' : 'server: clock ahead',
    subjects: ['clock'],
    lasts: [0.05, 0.1],
    apart: 2_000,
    begin: ({ amount, ttl }: Act) => {
      server.clockJump(by * Math.round((0.5 + 9.5 * amount) * ttl))
      return undefined
    },
  }
}
