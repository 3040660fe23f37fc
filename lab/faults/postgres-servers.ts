/** Faults of a PostgreSQL server, for both strategies. */
import { type PostgresServer, startPostgres } from '../../test/support/servers/postgres.js'
import { until } from '../../test/support/until.js'
import { outages, statedFault, subjects } from './database-servers.js'
import { adminCommand, ofWorkers } from './postgres-admin-commands.js'
import { connectionsTaken, externalClient } from './postgres-external-clients.js'
import { forgottenAfter, inSequence, repeatEvery } from './sequences.js'
import type { Fault } from './store.js'

/** Small enough to exhaust, and durable: everything acknowledged survives a kill or a power cut. */
export const startLabServer = (): Promise<PostgresServer> =>
  startPostgres({
    preload: ['clock', 'redo'],
    settings: { max_connections: '60', superuser_reserved_connections: '5', fsync: 'on' },
  })

const ignore = () => undefined

/** The listening connections: each worker's first one, or the one it has for that alone. */
const listening = `from (select distinct on (application_name) pid, application_name ${ofWorkers}
  order by application_name, backend_start) first
  where application_name like '% subscriber' or not exists
    (select from pg_stat_activity e where e.application_name = first.application_name || ' subscriber')`

/** A server setting that takes effect at once on all connections, open ones included. */
function setting(kind: string, server: PostgresServer, name: string, value: string): Fault {
  const reload = 'select pg_reload_conf()'
  return {
    kind: `server: ${kind}`,
    subjects,
    lasts: [0.2, 2],
    begin: async () => {
      await adminCommand(server, `alter system set ${name} = ${value}`, reload)
      // It must not stay so for ever.
      const what = `${name} to be reset`
      return () =>
        until(() => adminCommand(server, `alter system reset ${name}`, reload), {
          within: 20_000,
          what,
        }).then(ignore)
    },
  }
}

/** Data survive all of these, and no clock moves. */
export function postgresFaults(server: PostgresServer): Fault[] {
  return inSequence([
    ...outages(server, 0),
    statedFault('kill connections', 2, () =>
      adminCommand(server, `select pg_terminate_backend(pid) ${ofWorkers}`),
    ),
    statedFault('kill some connections', 2, () =>
      adminCommand(server, `select pg_terminate_backend(pid) ${ofWorkers} and random() < 0.4`),
    ),
    statedFault('kill listeners', 2, () =>
      adminCommand(server, `select pg_terminate_backend(pid) ${listening}`),
    ),
    {
      kind: 'server: cancel statements',
      subjects,
      lasts: [0.1, 1],
      begin: () =>
        repeatEvery(15, () =>
          adminCommand(server, `select pg_cancel_backend(pid) ${ofWorkers} and state = 'active'`),
        ),
    },
    setting('short statement_timeout', server, 'statement_timeout', "'5ms'"),
    setting('short idle_session_timeout', server, 'idle_session_timeout', "'30ms'"),
    setting('read-only', server, 'default_transaction_read_only', 'on'),
    connectionsTaken(server),
    externalClient(server),
    {
      kind: 'idle rows are reaped',
      subjects: ['reaper'],
      weight: 2,
      lasts: [0.5, 3],
      begin: ({ ttl }) =>
        repeatEvery(25, () =>
          adminCommand(server, `select holdfast_reap_v1(${forgottenAfter * ttl * 1000})`),
        ),
    },
  ])
}
