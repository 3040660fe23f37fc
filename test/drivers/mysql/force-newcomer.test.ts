// A lock of the strategy `session` taken by force from a holder that has just died, while a newcomer has its GET_LOCK and waits for the row.
// Second tier because `row` is the default; conformance/mysql-session.test.ts is in this tier, too.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { after, before, describe, it, type TestContext } from 'node:test'
import { createConnection } from 'mysql2/promise'
import { leakCheck } from '../../support/leaks.js'
import { startProxy, type TcpProxy } from '../../support/proxy.js'
import { type Flavour, type MysqlServer, startMysql } from '../../support/servers/mysql.js'
import { until } from '../../support/until.js'
import type { Library } from './support/clients.js'
import { peer } from './support/peer.js'

const runs: readonly (readonly [Flavour, Library])[] = [
  ['mariadb', 'mysql2'],
  ['mysql', 'mariadb'],
]

/** Long enough that no test passes because a lease ran out or was renewed. */
const ttl = 3_600_000
/** Long enough for a statement that waits for the test. */
const commandTimeout = 60_000

for (const [flavour, library] of runs) {
  describe(`a session whose holder has just died (${flavour}, ${library})`, { concurrency: false }, () => {
    let server: MysqlServer
    let proxy: TcpProxy
    before(async () => {
      server = await startMysql({ flavour })
      proxy = await startProxy({ port: server.port })
    })
    after(async () => {
      await proxy.stop()
      await server.stop()
    })
    const options = { library, strategy: 'session', commandTimeout } as const

    const connectionOf = async (name: string) => {
      const [row] = await server.query(
        `select is_used_lock(concat('hf', left(sha2(concat(database(), '.holdfast_locks.', hex('${name}')), 256), 60))) as id`,
      )
      return row?.['id'] ?? undefined
    }
    const endHolder = async (name: string) => {
      await server.query(`kill ${String(await connectionOf(name))}`)
      await until(async () => (await connectionOf(name)) === undefined)
    }

    /** A newcomer that holds another lock, too, and stops between its GET_LOCK and its row until `goOn`. */
    const newcomer = async (t: TestContext, name: string) => {
      const locks = peer(t, server.port, options)
      const other = await locks.mutex(`${name}, other`).acquire({ ttl })
      const stranger = await createConnection(server.url)
      t.after(() => stranger.end())
      return {
        other,
        async come() {
          await stranger.query('begin')
          await stranger.query('select 1 from holdfast_locks where name = ? for update', [name])
          const lease = locks.mutex(name).acquire({ ttl, wait: 60_000 })
          lease.catch(() => undefined)
          await until(async () => (await connectionOf(name)) !== undefined)
          return {
            async goOn() {
              await stranger.query('rollback')
              return lease
            },
          }
        },
      }
    }

    /** It dies, and the newcomer comes, at one of these moments; what the operator is answered then. */
    const moments = [
      ['before the operator looks', undefined, 0],
      ['after the operator has seen the holder', (way: TcpProxy) => way.down.hold('orphaned'), 1],
      ['before the server is told to end the holder', (way: TcpProxy) => way.up.hold('KILL CONNECTION'), 1],
    ] as const

    for (const [moment, stop, ended] of moments) {
      for (const strategy of ['row', 'session'] as const) {
        it(`spares the newcomer: ${moment} (operator: ${strategy})`, async (t) => {
          t.after(() => proxy.heal())
          const name = `${moment} ${strategy}`
          const operator = peer(t, proxy.port, { library, strategy, commandTimeout, size: 1 })
          const first = await peer(t, server.port, options).mutex(name).acquire({ ttl })
          const { other, come } = await newcomer(t, name)
          const { signal } = other
          assert.equal((await operator.inspect(name)).holders.length, 1)
          let forced: Promise<number> | undefined
          if (stop !== undefined) {
            stop(proxy)
            forced = operator.forceRelease(name)
            await until(() => proxy.down.held.length + proxy.up.held.length > 0)
          }
          await endHolder(name)
          const { goOn } = await come()
          proxy.heal()
          forced ??= operator.forceRelease(name)
          await Promise.race([forced, once(signal, 'abort')])
          assert.equal(signal.aborted, false, 'the newcomer lost what else it holds')
          assert.equal(await forced, ended)
          assert.deepEqual((await operator.inspect(name)).holders, [])
          const second = await goOn()
          assert.ok(second.token > first.token)
          assert.equal((await operator.inspect(name)).holders[0]?.token, second.token)
          assert.equal(await second.release(), 'released')
          assert.equal(await other.release(), 'released')
        })
      }
    }

    it('is taken by force, or free, as before where its row names no connection (an older version)', async (t) => {
      const [holder, operator] = [peer(t, server.port, options), peer(t, server.port, { library })]
      const holdAsBefore = async () => {
        const lease = await holder.mutex('older').acquire({ ttl })
        await server.query(`update holdfast_locks set until = ${2 ** 53 - 1} where name = 'older'`)
        assert.equal((await operator.inspect('older')).holders[0]?.token, lease.token)
        return lease
      }
      const { signal } = await holdAsBefore()
      assert.equal(await operator.forceRelease('older'), 1)
      await until(() => signal.aborted)
      await holdAsBefore()
      await endHolder('older')
      assert.deepEqual((await operator.inspect('older')).holders, [])
      await (await operator.mutex('older').tryAcquire())?.release()
    })
  })
}

after(leakCheck)
