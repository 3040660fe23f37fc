/** Interference by other clients of the same MySQL or MariaDB server. */
import { type Connection, type ConnectionOptions, createConnection } from 'mysql2/promise'
import type { MysqlServer } from '../../test/support/servers/mysql.js'
import { externalTransactions, connectionsTaken as fullOf } from './external-clients.js'
import { adminCommand, kill } from './mysql-admin-commands.js'
import { user } from './mysql-client.js'
import { forgottenAfter, repeatEvery } from './sequences.js'
import type { Fault } from './store.js'

const ignore = () => undefined

export function externalClient(server: MysqlServer): Fault {
  const ways = [
    ['begin', 'select * from holdfast_locks for update'],
    ['lock tables holdfast_locks write'],
    ['lock tables holdfast_waiters write'],
    ['begin', `select * from holdfast_locks where name in ('ledger', 'report') for update`],
    ['begin', `select * from holdfast_waiters for update`],
  ]
  return externalTransactions(ways, (way) => {
    let connection: Connection | undefined
    let over = false
    const begin = async () => {
      connection = await connected({ uri: server.url })
      for (const statement of way) if (!over) await connection.query(statement)
      if (over) connection.destroy()
    }
    begin().catch(ignore)
    return async () => {
      over = true
      // The server does not check the socket of a connection that waits for a lock, so the connection is killed.
      const { threadId } = (connection ?? {}) as { threadId?: number }
      if (threadId !== undefined) await adminCommand(server, `kill connection ${threadId}`)
      // Do not wait for its statement: on a destroyed connection it never settles.
      connection?.destroy()
    }
  })
}

async function connected(place: ConnectionOptions): Promise<Connection> {
  const connection = await createConnection({ ...place, connectTimeout: 2_000 })
  // An unhandled error event would end the process.
  connection.on('error', ignore)
  return connection
}

export function connectionsTaken(server: MysqlServer): Fault {
  const { host, port } = server
  return fullOf(
    () => kill(server, 'connection'),
    () => connected({ host, port, user, database: 'holdfast' }),
    (connection) => connection.destroy(),
  )
}

/** Does what the driver does to rows unused for long, with a shorter time. */
export function reaper(server: MysqlServer): Fault {
  const now = `timestampdiff(microsecond, '1970-01-01', utc_timestamp(6))`
  const reap = async (ms: number) => {
    const unused = `until <= ${now} and line_until <= ${now} and top < ${now} - ${ms * 1000}`
    const rows = await server
      .query(`select hex(name) name from holdfast_locks where ${unused}`)
      .catch(() => [])
    for (const row of rows) {
      await adminCommand(
        server,
        `delete from holdfast_locks where name = x'${String(row['name'])}' and ${unused}`,
      )
    }
  }
  return {
    kind: 'idle rows are reaped',
    subjects: ['reaper'],
    weight: 2,
    lasts: [0.5, 3],
    begin: ({ ttl }) => repeatEvery(25, () => reap(forgottenAfter * ttl)),
  }
}
