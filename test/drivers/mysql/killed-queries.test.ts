// An operator, or a time limit of the server, ends one statement. The connection of a session stays, and so do its locks; a release is sent again.
// Second tier because an operator seldom does.
import assert from 'node:assert/strict'
import { after, before, describe, it, type TestContext } from 'node:test'
import { createLocks, type Lease } from 'holdfast'
import { type MysqlPool, mysql } from 'holdfast/mysql'
import { createConnection } from 'mysql2/promise'
import { leakCheck } from '../../support/leaks.js'
import { type Flavour, type MysqlServer, startMysql } from '../../support/servers/mysql.js'
import { until } from '../../support/until.js'
import { type Library, open } from './support/clients.js'
import { peer } from './support/peer.js'

type Query = (options: { readonly sql: string }) => Promise<unknown>
interface AppConnection {
  readonly threadId: number
  readonly query: Query
  release(): unknown
}

/** So long that the answer comes in time on any machine. */
const patient = 60_000

/** Nobody reads or writes this table until the end of the block. */
async function tableLocked({ url }: MysqlServer, table: string): Promise<AsyncDisposable> {
  const connection = await createConnection(url)
  await connection.query(`lock tables ${table} write`)
  return { [Symbol.asyncDispose]: () => connection.end() }
}

/** The connection whose statement waits for a table. */
async function stuck({ query }: MysqlServer): Promise<number | undefined> {
  const rows = await query(
    `select id as id from information_schema.processlist where state like 'Waiting for table metadata lock'`,
  )
  return rows[0] === undefined ? undefined : Number(rows[0]['id'])
}

async function killQuery(server: MysqlServer): Promise<void> {
  const id = await until(() => stuck(server), { what: 'a statement to wait for the table' })
  await server.query(`kill query ${id}`)
}

/** The connection that has the GET_LOCK. */
const owner = async ({ query }: MysqlServer, name: string) => {
  const lock = `concat('hf', left(sha2(concat(database(), '.holdfast_locks.', hex('${name}')), 256), 60))`
  const [row] = await query(`select is_used_lock(${lock}) as id`)
  return row?.['id'] ?? undefined
}

/** A session whose statements are seen. Once armed, its next statement that releases a GET_LOCK reads the table `gate` before. */
function watched(t: TestContext, library: Library, port: number, commandTimeout = patient) {
  const { pool, close } = open(library, port)
  const sent: string[] = []
  const queries: Query[] = []
  let armed = false
  const altered: MysqlPool = {
    async getConnection() {
      const connection = (await pool.getConnection()) as { query: Query }
      const query = connection.query.bind(connection)
      queries.push(query)
      connection.query = (options) => {
        sent.push(options.sql)
        if (!armed || !options.sql.startsWith('DO RELEASE_LOCK')) return query(options)
        armed = false
        const sql = options.sql.replace('DO ', 'DO (SELECT COUNT(*) FROM gate), ')
        return query({ ...options, sql })
      }
      return connection
    },
  }
  const locks = createLocks(mysql({ pool: altered, strategy: 'session', commandTimeout }))
  t.after(async () => {
    await locks.close()
    close()
  })
  return {
    locks,
    sent,
    /** A statement of the application on the connection of the session, which is the newest. */
    query: (sql: string) => queries.at(-1)?.({ sql }),
    arm: () => {
      armed = true
      sent.length = 0
    },
  }
}

for (const flavour of ['mariadb', 'mysql'] satisfies Flavour[]) {
  describe(flavour, { concurrency: false }, () => {
    let server: MysqlServer
    before(async () => {
      server = await startMysql({ flavour })
      await server.query('create table gate (id int)')
    })
    after(() => server.stop())

    for (const library of ['mysql2', 'mariadb'] satisfies Library[]) {
      const other = (t: TestContext) =>
        peer(t, server.port, { library, strategy: 'session', commandTimeout: patient })

      /** The lock is still held, by the same connection, and can be extended and released. */
      const assertHeld = async (t: TestContext, lease: Lease, connection: unknown) => {
        assert.equal(await owner(server, lease.name), connection)
        assert.equal(await other(t).mutex(lease.name).tryAcquire(), undefined)
        await lease.extend()
        assert.equal(await lease.release(), 'released')
      }

      it(`KILL QUERY of a renewal ends no lease (${library})`, async (t) => {
        const { locks } = watched(t, library, server.port)
        const lease = await locks.mutex(`killed ${library}`).acquire({ ttl: 600_000 })
        const connection = await owner(server, lease.name)
        {
          await using _ = await tableLocked(server, 'holdfast_locks')
          const extending = lease.extend()
          await Promise.all([
            killQuery(server),
            assert.rejects(extending, { code: 'BACKEND', message: /1317.*killed/ }),
          ])
        }
        await assertHeld(t, lease, connection)
      })

      it(`a statement that takes longer than the server allows ends no lease (${library})`, async (t) => {
        const { locks, query } = watched(t, library, server.port)
        const [limit, shortest] =
          flavour === 'mariadb' ? ['max_statement_time', 0.1] : ['max_execution_time', 100]
        const lease = await locks.mutex(`slow ${library}`).acquire({ ttl: 600_000 })
        const connection = await owner(server, lease.name)
        {
          await using _ = await tableLocked(server, 'holdfast_locks')
          await query(`set session ${limit} = ${shortest}`)
          await assert.rejects(lease.extend(), { code: 'BACKEND', message: new RegExp(String(limit)) })
          await query(`set session ${limit} = 0`)
        }
        await assertHeld(t, lease, connection)
      })

      it(`KILL QUERY of a release leaves no lock behind (${library})`, async (t) => {
        const { locks, arm } = watched(t, library, server.port)
        const kept = await locks.mutex(`kept ${library}`).acquire({ ttl: 600_000 })
        const lease = await locks.mutex(`left ${library}`).acquire({ ttl: 600_000 })
        arm()
        {
          await using _ = await tableLocked(server, 'gate')
          const releasing = lease.release()
          await killQuery(server)
          assert.equal(await releasing, 'released')
        }
        const next = await other(t).mutex(lease.name).acquire({ wait: patient })
        assert.ok(next.token > lease.token)
        await next.release()
        assert.equal(kept.isHeld, true)
        await kept.release()
      })

      it(`row: KILL QUERY of a release leaves no lock behind (${library})`, async (t) => {
        const held = peer(t, server.port, { library, commandTimeout: patient })
        const lease = await held.mutex(`row ${library}`).acquire({ ttl: 600_000 })
        {
          await using locked = await tableLocked(server, 'holdfast_locks')
          const releasing = lease.release()
          await killQuery(server)
          await locked[Symbol.asyncDispose]()
          assert.equal(await releasing, 'released')
        }
        const next = await peer(t, server.port, { library }).mutex(lease.name).acquire({ wait: patient })
        assert.ok(next.token > lease.token)
        await next.release()
      })

      it(`row: a time limit left on the connections of the pool ends no statement for good (${library})`, async (t) => {
        const [limit, shortest] =
          flavour === 'mariadb' ? ['max_statement_time', 0.1] : ['max_execution_time', 100]
        const { pool, close } = open(library, server.port, 1)
        const locks = createLocks(mysql({ pool, commandTimeout: patient }))
        t.after(async () => {
          await locks.close()
          close()
        })
        const lease = await locks.mutex(`limit ${library}`).acquire({ ttl: 600_000 })
        const connection = (await pool.getConnection()) as AppConnection
        await connection.query({ sql: `set session ${limit} = ${shortest}` })
        const limited = connection.threadId
        await connection.release()
        {
          await using locked = await tableLocked(server, 'holdfast_locks')
          // That of MySQL is for statements that only read.
          const inspecting = async () => `${(await locks.inspect(lease.name)).holders.length} holder`
          const asked = flavour === 'mariadb' ? lease.release() : inspecting()
          const again = async () => ![undefined, limited].includes(await stuck(server))
          await until(again, { what: 'the statement to be sent over another connection' })
          await locked[Symbol.asyncDispose]()
          assert.equal(await asked, flavour === 'mariadb' ? 'released' : '1 holder')
        }
      })

      it(`KILL QUERY of a release that nobody waits for leaves no lock behind (${library})`, async (t) => {
        const { locks, arm } = watched(t, library, server.port, 1_000)
        const waits = { ttl: 600_000, wait: patient }
        const kept = await locks.mutex(`kept on ${library}`).acquire(waits)
        const lease = await locks.mutex(`given up ${library}`).acquire(waits)
        arm()
        {
          await using _ = await tableLocked(server, 'gate')
          assert.equal(await lease.release(), 'unknown')
          await killQuery(server)
        }
        const next = await other(t).mutex(lease.name).acquire({ wait: patient })
        assert.ok(next.token > lease.token)
        await next.release()
        assert.equal(kept.isHeld, true)
        await kept.release()
      })

      it(`a release that is sent again does not free the lock of the next holder in its process (${library})`, async (t) => {
        const { locks, arm, sent } = watched(t, library, server.port)
        const lease = await locks.mutex(`next ${library}`).acquire({ ttl: 600_000 })
        arm()
        const waiting = await (async () => {
          await using _ = await tableLocked(server, 'gate')
          const releasing = lease.release()
          await until(() => stuck(server), { what: 'the release to wait for the table' })
          const [before, acquiring] = [sent.length, locks.mutex(lease.name).acquire({ wait: patient })]
          await until(() => sent.length > before, { what: 'the next claim to send its first statement' })
          await killQuery(server)
          assert.equal(await releasing, 'released')
          return { acquiring }
        })()
        const next = await waiting.acquiring
        await assertHeld(t, next, await owner(server, lease.name))
        const locking = sent.flatMap((sql) => /GET_LOCK|RELEASE_LOCK/.exec(sql)?.[0] ?? [])
        assert.deepEqual(locking.slice(0, 3), ['RELEASE_LOCK', 'RELEASE_LOCK', 'GET_LOCK'])
      })
    }
  })
}

after(leakCheck)
