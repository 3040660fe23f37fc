// Statements that arrive twice, the second time after a later one was answered: a client or a proxy repeats what it had no answer to.
import { after, type TestContext } from 'node:test'
import { createPool, type PoolConnection } from 'mysql2/promise'
import { createLocks } from '../../../src/create-locks.js'
import { mysql } from '../../../src/drivers/mysql/index.js'
import { leakCheck } from '../../support/leaks.js'
import { type MysqlServer, startMysql } from '../../support/servers/mysql.js'
import { type Recorded, survivesLateCopies } from '../support/late-copies.js'

/** Another connection sends what a mysql2 pool has sent. */
function record(t: TestContext, server: MysqlServer): Recorded {
  const pool = createPool(server.url)
  const sent: string[] = []
  const recorded = (connection: PoolConnection) =>
    new Proxy(connection, {
      get(target, name) {
        if (name === 'query')
          return (query: { readonly sql: string }) => {
            if (query.sql.startsWith('UPDATE')) sent.push(query.sql)
            return target.query(query as never)
          }
        const part: unknown = Reflect.get(target, name)
        return typeof part === 'function' ? part.bind(target) : part
      },
    })
  const locks = createLocks(
    mysql({ pool: { getConnection: async () => recorded(await pool.getConnection()) } as never }),
  )
  t.after(async () => {
    await locks.close()
    await pool.end()
  })
  const take = () => {
    const copies = sent.splice(0)
    return async () => {
      for (const copy of copies) await server.query(copy)
    }
  }
  return { locks, take }
}

for (const flavour of ['mysql', 'mariadb'] as const) {
  const server = await startMysql({ flavour })
  after(() => server.stop())
  survivesLateCopies(flavour, (t) => record(t, server))
}

after(leakCheck)
