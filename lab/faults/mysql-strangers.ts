/** Others on the same MySQL or MariaDB server, who are in the way. */
import { type Connection, createConnection } from 'mysql2/promise'
import type { MysqlServer } from '../../test/support/servers/mysql.js'
import { user } from './mysql-client.js'
import { kill, order } from './mysql-orders.js'
import type { Fault } from './store.js'
import { again } from './turns.js'

const ignore = () => undefined

/** Somebody else's transaction keeps what is ours for a while, and is then rolled back. */
export function stranger(server: MysqlServer): Fault {
  const ways = [
    ['begin', 'select * from holdfast_locks for update'],
    ['lock tables holdfast_locks write'],
    ['lock tables holdfast_waiters write'],
    ['begin', `select * from holdfast_locks where name in ('ledger', 'report') for update`],
    ['begin', `select * from holdfast_waiters for update`],
  ]
  return {
    kind: 'a stranger locks rows',
    subjects: ['stranger'],
    weight: 3,
    lasts: [0.1, 3],
    begin: ({ amount }) => {
      let connection: Connection | undefined
      let over = false
      const begin = async () => {
        connection = await createConnection({ uri: server.url, connectTimeout: 2_000 })
        // An error that nobody listens to would end the process.
        connection.on('error', ignore)
        const way = ways[Math.floor(amount * ways.length)] ?? []
        for (const statement of way) if (!over) await connection.query(statement)
        if (over) connection.destroy()
      }
      begin().catch(ignore)
      return async () => {
        over = true
        // The server does not look at the socket of one that waits for a lock: it is killed.
        const { threadId } = (connection ?? {}) as { threadId?: number }
        if (threadId !== undefined) await order(server, `kill connection ${threadId}`)
        // What it asked is not waited for: a connection that was destroyed leaves it unanswered for ever.
        connection?.destroy()
      }
    },
  }
}

/** Everybody is thrown out, and somebody else is quicker to come back. */
export function full(server: MysqlServer): Fault {
  return {
    kind: 'server: no connections left',
    subjects: ['server 0'],
    lasts: [0.1, 2],
    begin: async () => {
      const taken: Connection[] = []
      await kill(server, 'connection')
      const connect = async () => {
        const { host, port } = server
        const connection = await createConnection({
          host,
          port,
          user,
          database: 'holdfast',
          connectTimeout: 2_000,
        })
        connection.on('error', ignore)
        taken.push(connection)
      }
      for (let refused = false; !refused && taken.length < 60; ) {
        const came = await Promise.allSettled(Array.from({ length: 10 }, connect))
        refused = came.some(({ status }) => status === 'rejected')
      }
      return () => {
        for (const connection of taken) connection.destroy()
      }
    },
  }
}

/** Does what the driver does to rows that nobody has used for long, of shorter time. */
export function reaper(server: MysqlServer): Fault {
  const now = `timestampdiff(microsecond, '1970-01-01', utc_timestamp(6))`
  const unused = `until <= ${now} and line_until <= ${now} and top < ${now} - 300000`
  const reap = async () => {
    const rows = await server
      .query(`select hex(name) name from holdfast_locks where ${unused}`)
      .catch(() => [])
    for (const row of rows) {
      await order(server, `delete from holdfast_locks where name = x'${String(row['name'])}' and ${unused}`)
    }
  }
  return {
    kind: 'idle rows are reaped',
    subjects: ['reaper'],
    weight: 2,
    lasts: [0.5, 3],
    begin: () => again(25, reap),
  }
}
