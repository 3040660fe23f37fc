// What is special about the strategy `session`: one connection for all locks, which the server ends, an operator kills, or a cable
// takes away; on both servers and with both clients.
// Second tier because `row` is the default; conformance/mysql-session.test.ts is in this tier, too.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { after, before, describe, it } from 'node:test'
import { LeaseLostError } from 'holdfast'
import { createPool } from 'mysql2/promise'
import { createLocks } from '../../../src/create-locks.js'
import { mysql } from '../../../src/drivers/mysql/index.js'
import { leakCheck } from '../../support/leaks.js'
import { startProxy, type TcpProxy } from '../../support/proxy.js'
import { type Flavour, type MysqlServer, startMysql } from '../../support/servers/mysql.js'
import { until } from '../../support/until.js'
import type { Library } from './support/clients.js'
import { connections, killAll, pause, peer, statements } from './support/peer.js'

const runs: readonly (readonly [Flavour, Library])[] = [
  ['mariadb', 'mysql2'],
  ['mysql', 'mariadb'],
]

for (const [flavour, library] of runs) {
  describe(`a session (${flavour}, ${library})`, { concurrency: false }, () => {
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
    const options = { library, strategy: 'session' } as const

    it('holds any number of locks on one connection, taken in two statements and released in two', async (t) => {
      const locks = peer(t, server.port, { ...options, size: 1 })
      const leases = await Promise.all(
        Array.from({ length: 60 }, (_, i) => locks.mutex(`many ${i}`).acquire()),
      )
      const holding = await server.query(
        `select is_used_lock(n) as id from (select concat('hf', left(sha2(concat(database(), '.holdfast_locks.', hex(name)), 256), 60)) as n from holdfast_locks) as l`,
      )
      const ids = new Set(holding.map((row) => String(row['id'])))
      assert.equal(holding.length, 60)
      assert.equal(ids.size, 1, `on connections ${[...ids]}`)
      for (const lease of leases) assert.equal(await lease.release(), 'released')
      const lock = locks.mutex('many 0')
      const once = async () => void (await (await lock.acquire()).release())
      assert.deepEqual(await statements(server, once), { select: 1, update: 2, do: 1 })
    })

    it('proves all its locks by one statement', async (t) => {
      const locks = peer(t, server.port, options)
      const leases = await Promise.all(
        // So long that nothing is proven by itself meanwhile.
        Array.from({ length: 20 }, (_, i) => locks.mutex(`proven ${i}`).acquire({ ttl: 600_000 })),
      )
      const extend = () => Promise.all(leases.map((lease) => lease.extend()))
      assert.deepEqual(await statements(server, extend), { select: 1 })
      for (const lease of leases) await lease.release()
    })

    it('frees the locks of a killed connection at once, and its holder is notified (H69)', async (t) => {
      const [a, b] = [peer(t, server.port, options), peer(t, server.port, options)]
      const lease = await a.mutex('killed').acquire({ ttl: 120_000 })
      const { signal } = lease
      const [id] = await server.query(
        `select is_used_lock(concat('hf', left(sha2(concat(database(), '.holdfast_locks.', hex('killed')), 256), 60))) as id`,
      )
      const next = b.mutex('killed').acquire({ wait: 60_000 })
      await until(async () => (await b.inspect('killed')).waiters.length === 1)
      await server.query(`kill ${String(id?.['id'])}`)
      // Its wait would be over before the ttl.
      const second = await next
      await until(() => signal.aborted)
      assert.ok(
        signal.reason instanceof LeaseLostError && signal.reason.why === 'revoked',
        String(signal.reason),
      )
      assert.ok(second.token > lease.token)
      await second.release()
      // Its process continues with a new connection.
      await a.mutex('killed').run(() => undefined)
    })

    it('keeps what a silent client holds for its ttl and no longer, and the client knows first', async (t) => {
      const [a, b] = [peer(t, proxy.port, options), peer(t, server.port, options)]
      const lease = await a.mutex('silent').acquire({ ttl: 2_000 })
      proxy.blackHole()
      // Without an end by the server it would be hours.
      const second = await b.mutex('silent').acquire({ wait: 60_000 })
      const heldAtGrant = lease.isHeld
      proxy.heal()
      assert.equal(heldAtGrant, false)
      await second.release()
    })

    it('makes a try that crosses the end of its idle connection over another one', async (t) => {
      await until(async () => (await connections(server)).length === 0)
      const locks = peer(t, server.port, { ...options, size: 1 })
      // Nothing longer was asked for: the server keeps it for a second without a word.
      await locks.inspect('crossed')
      const [mine] = await connections(server)
      // Nothing is read here until the server has ended it.
      const script = `(async () => {
        const other = await require('mysql2/promise').createConnection(${JSON.stringify(server.url)})
        const left = 'select 1 from information_schema.processlist where id = ${mine}'
        while ((await other.query(left))[0].length > 0) await new Promise((resolve) => setTimeout(resolve, 50))
        process.exit()
      })()`
      const { status } = spawnSync(process.execPath, ['-e', script], { timeout: 30_000, stdio: 'inherit' })
      assert.equal(status, 0)
      const lease = await locks.mutex('crossed').tryAcquire({ ttl: 60_000 })
      assert.equal(await lease?.release(), 'released')
    })

    it('can retake a lock that it could not release in time, once it is connected again', async (t) => {
      const locks = peer(t, proxy.port, { ...options, commandTimeout: 300 })
      const other = await locks.mutex('keeps the connection').acquire({ ttl: 60_000 })
      const lease = await locks.mutex('late').acquire({ ttl: 1_000 })
      proxy.up.hold()
      assert.match(await lease.release(), /^(unknown|lost)$/)
      // Longer than anybody tries to release it.
      await pause(1_500)
      proxy.up.pass()
      await (await locks.mutex('late').acquire({ wait: 30_000 })).release()
      assert.equal(other.isHeld, true)
      await other.release()
    })

    it('does not force-release the next holder’s lock when the reply to a forced release is lost', async (t) => {
      // Of more connections another one, broken as well, could be asked then: its answer is an error.
      const operator = peer(t, proxy.port, { ...options, size: 1, commandTimeout: 60_000 })
      const [a, b] = [peer(t, server.port, options), peer(t, server.port, options)]
      const first = await a.mutex('forced').acquire({ ttl: 60_000 })
      const next = b.mutex('forced').acquire({ ttl: 60_000, wait: 60_000 })
      await until(async () => (await b.inspect('forced')).waiters.length === 1)
      await operator.inspect('forced')
      proxy.down.hold()
      const forced = operator.forceRelease('forced')
      await proxy.down.holding()
      // It has seen who holds; what it says then is carried out, and not answered.
      proxy.down.letGo(1)
      await proxy.down.holding()
      await first.release()
      const second = await next
      proxy.reset()
      proxy.heal()
      assert.equal(await forced, 1)
      assert.equal((await a.inspect('forced')).holders[0]?.token, second.token)
      assert.equal(await second.release(), 'released')
    })

    it('excludes locks of the strategy `row` of the same name, both ways', async (t) => {
      const [a, b] = [peer(t, server.port, options), peer(t, server.port, { library })]
      const lease = await a.mutex('mixed').acquire()
      assert.equal(await b.mutex('mixed').tryAcquire(), undefined)
      await lease.release()
      const other = await b.mutex('mixed').acquire()
      assert.equal(await a.mutex('mixed').tryAcquire(), undefined)
      await other.release()
      const last = await a.mutex('mixed').acquire()
      await killAll(server)
      const next = await b.mutex('mixed').acquire({ wait: 30_000 })
      assert.ok(next.token > last.token)
      await next.release()
    })

    it('serves six processes over connections that are killed again and again, each with a token of its own', async (t) => {
      const clients = Array.from({ length: 6 }, () => peer(t, server.port, { ...options, size: 2 }))
      const tokens: number[] = []
      let go = true
      const killing = (async () => {
        while (go) {
          const began = performance.now()
          const all = await connections(server)
          const one = all[Math.floor(Math.random() * all.length)]
          if (one !== undefined) await server.query(`kill ${one}`).catch(() => undefined)
          // However slow the machine: somebody must have the time to connect and be answered.
          await pause(Math.max(60, 3 * (performance.now() - began)))
        }
      })()
      const work = clients.map(async (locks) => {
        for (let i = 0; i < 6; i++) {
          const lease = await locks.mutex('often').acquire({ wait: 30_000 })
          tokens.push(lease.token)
          await pause(2)
          await lease.release()
        }
      })
      await Promise.all(work).finally(() => {
        go = false
      })
      await killing
      // A kill ends a hold while its holder is inside, so two can be inside: what keeps them apart is the token.
      assert.equal(new Set(tokens).size, 36)
    })
  })
}

it('a session needs a pool with one connection to spare, and says so in time', async (t) => {
  await using server = await startMysql()
  const pool = createPool({ uri: server.url, connectionLimit: 1 })
  const only = await pool.getConnection()
  const locks = createLocks(mysql({ pool, strategy: 'session', commandTimeout: 200 }))
  t.after(async () => {
    await locks.close()
    await pool.end()
  })
  await assert.rejects(locks.mutex('x').tryAcquire(), { code: 'UNAVAILABLE' })
  only.release()
  await locks.mutex('x').run(() => undefined)
})

after(leakCheck)
