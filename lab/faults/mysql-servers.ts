/** Faults of a MySQL or MariaDB server, for both strategies. */
import { migration } from 'holdfast/mysql'
import { type Flavour, type MysqlServer, startMysql } from '../../test/support/servers/mysql.js'
import { until } from '../../test/support/until.js'
import { outages, statedFault, subjects } from './database-servers.js'
import { adminCommand, kill } from './mysql-admin-commands.js'
import { user } from './mysql-client.js'
import { connectionsTaken, externalClient, reaper } from './mysql-external-clients.js'
import { inSequence, repeatEvery } from './sequences.js'
import type { Fault } from './store.js'

export async function startLabServer(flavour: Flavour): Promise<MysqlServer> {
  // Durable: everything acknowledged survives a power cut.
  const args = ['--max-connections=60', '--innodb-flush-log-at-trx-commit=1']
  const server = await startMysql({ flavour, preload: ['clock', 'redo'], args })
  await server.query(`create user '${user}'@'%'`)
  for (const statement of migration({ user }).split(/;\n/)) {
    if (statement.trim() !== '') await server.query(statement)
  }
  return server
}

/** A server setting for new connections; existing ones are closed. */
function setting(kind: string, server: MysqlServer, name: string, value: string, usual: string): Fault {
  return {
    kind: `server: ${kind}`,
    subjects,
    lasts: [0.2, 2],
    begin: async () => {
      await adminCommand(server, `set global ${name} = ${value}`)
      if (name !== 'read_only') await kill(server, 'connection')
      const back = async () => {
        await until(() => adminCommand(server, `set global ${name} = ${usual}`), {
          within: 20_000,
          what: name,
        })
        if (name !== 'read_only') await kill(server, 'connection')
      }
      return back
    },
  }
}

/** Data survive all of these, and no clock moves. */
export function mysqlFaults(server: MysqlServer): Fault[] {
  const timeout =
    server.flavour === 'mariadb'
      ? setting('short max_statement_time', server, 'max_statement_time', '0.004', '0')
      : setting('short max_execution_time', server, 'max_execution_time', '3', '0')
  return inSequence([
    // It takes a second or two to come back.
    ...outages(server, 1_000),
    statedFault('kill connections', 2, () => kill(server, 'connection')),
    statedFault('kill some connections', 2, () => kill(server, 'connection', 0.4)),
    {
      kind: 'server: cancel statements',
      subjects,
      lasts: [0.1, 1],
      begin: () => repeatEvery(15, () => kill(server, 'query')),
    },
    timeout,
    setting('closes idle connections', server, 'wait_timeout', '1', '28800'),
    setting('short innodb_lock_wait_timeout', server, 'innodb_lock_wait_timeout', '1', '50'),
    setting('read-only', server, 'read_only', '1', '0'),
    connectionsTaken(server),
    externalClient(server),
    reaper(server),
  ])
}
