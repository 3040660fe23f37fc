// A connection, a database and a table have a character set. Neither the name of a lock nor the key of a request depends on it.
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { StaleTokenError } from 'holdfast'
import { admit, fenceSchema, mariadb, mysql2, once, onceSchema, type Sql } from 'holdfast/guard'
import { createConnection as connectMariadb } from 'mariadb'
import { createConnection as connectMysql2 } from 'mysql2/promise'
import { leakCheck } from '../support/leaks.js'
import { startMysql } from '../support/servers/mysql.js'

/** Latin1 has the first, GBK the first two, and utf8mb3 all but the last two. */
const words = ['Grüße', 'б', '锁', '😀', '😁']

interface Client {
  readonly db: Sql
  end(): Promise<unknown>
}
type Parts = {
  readonly host: string
  readonly port: number
  readonly user: string
  readonly database: string
}

const overMysql2 =
  (options: object, first = 'select 1') =>
  async (parts: Parts): Promise<Client> => {
    const connection = await connectMysql2({ ...parts, ...options })
    await connection.query(first)
    return { db: mysql2(connection), end: () => connection.end() }
  }
const overMariadb = async (parts: Parts): Promise<Client> => {
  const connection = await connectMariadb({ ...parts, allowPublicKeyRetrieval: true })
  await connection.query('set names latin1')
  return { db: mariadb(connection), end: () => connection.end() }
}

const clients: Readonly<Record<string, (parts: Parts) => Promise<Client>>> = {
  'mysql2 in latin1': overMysql2({ charset: 'LATIN1_SWEDISH_CI' }),
  'mysql2 in GBK': overMysql2({ charset: 'GBK_CHINESE_CI' }),
  'mysql2 in utf8mb3': overMysql2({ charset: 'UTF8_GENERAL_CI' }),
  'mysql2 after SET NAMES latin1': overMysql2({}, 'set names latin1'),
  'mariadb after SET NAMES latin1': overMariadb,
}

for (const flavour of ['mysql', 'mariadb'] as const)
  describe(`a ${flavour} database in latin1`, () => {
    let server: Awaited<ReturnType<typeof startMysql>>
    let parts: Parts
    let plain: Client
    before(async () => {
      server = await startMysql({ flavour })
      const { hostname: host, port, username: user } = new URL(server.url)
      parts = { host, port: Number(port), user, database: 'holdfast' }
      plain = await overMysql2({})(parts)
      await plain.db.run('alter database holdfast character set latin1', [])
      for (const text of [...fenceSchema('mysql'), ...onceSchema('mysql')]) await plain.db.run(text, [])
    })
    after(async () => {
      await plain.end()
      await server.stop()
    })

    for (const [client, connect] of Object.entries(clients)) {
      test(`${client}: a key is the same for every client, and its result comes back`, async () => {
        const other = await connect(parts)
        for (const word of words) {
          const key = `${client} ${word}`
          const first = await once(other.db, key, () => ({ word }))
          assert.deepEqual(first, { result: { word }, repeated: false })
          for (const { db } of [other, plain])
            assert.deepEqual(await once(db, key, () => 'again'), { result: { word }, repeated: true })
        }
        await other.end()
      })

      test(`${client}: a stale token is refused no matter which client admitted the newer one`, async () => {
        const other = await connect(parts)
        for (const word of words) {
          const name = `${client} ${word}`
          await admit(other.db, { name, token: 5 })
          await admit(plain.db, { name, token: 6 })
          await assert.rejects(admit(other.db, { name, token: 5 }), StaleTokenError)
          await admit(other.db, { name, token: 7 })
          await assert.rejects(admit(plain.db, { name, token: 6 }), StaleTokenError)
        }
        await other.end()
      })
    }
  })

after(leakCheck)
