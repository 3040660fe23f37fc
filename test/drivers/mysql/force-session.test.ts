// A lock of the strategy `session` taken by force: the server ends the connection of its holder, or nothing changes.
// Second tier because `row` is the default; conformance/mysql-session.test.ts is in this tier, too.
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { LeaseLostError } from 'holdfast'
import { migration, mysql } from 'holdfast/mysql'
import { createPool } from 'mysql2/promise'
import { createLocks } from '../../../src/create-locks.js'
import { bench } from '../../cli/support/cli.js'
import { leakCheck } from '../../support/leaks.js'
import { startProxy, type TcpProxy } from '../../support/proxy.js'
import { type Flavour, type MysqlServer, startMysql } from '../../support/servers/mysql.js'
import { until } from '../../support/until.js'
import type { Library } from './support/clients.js'
import { connections, peer } from './support/peer.js'

const runs: readonly (readonly [Flavour, Library])[] = [
  ['mariadb', 'mysql2'],
  ['mysql', 'mariadb'],
]

/** Long enough that no test passes because a lease ran out or was renewed. */
const ttl = 3_600_000

for (const [flavour, library] of runs) {
  describe(`a session whose lock is taken by force (${flavour}, ${library})`, { concurrency: false }, () => {
    let server: MysqlServer
    let proxy: TcpProxy
    before(async () => {
      server = await startMysql({ flavour })
      proxy = await startProxy({ port: server.port })
      await server.query(`create user 'app'@'%'`)
    })
    after(async () => {
      await proxy.stop()
      await server.stop()
    })
    const options = { library, strategy: 'session' } as const

    for (const strategy of ['row', 'session'] as const) {
      it(`is free at once although its process is paused (operator: ${strategy})`, async (t) => {
        const holder = peer(t, proxy.port, options)
        const [operator, next] = [peer(t, server.port, { library, strategy }), peer(t, server.port, options)]
        const name = `still ${strategy}`
        const lease = await holder.mutex(name).acquire({ ttl })
        proxy.up.hold()
        t.after(() => proxy.heal())
        assert.equal(await operator.forceRelease(name), 1)
        assert.deepEqual((await operator.inspect(name)).holders, [])
        const second = await next.mutex(name).tryAcquire({ ttl })
        assert.ok(second !== undefined && second.token > lease.token)
        assert.equal(await operator.forceRelease(`${name}, never held`), 0)
        assert.equal(await second.release(), 'released')
      })
    }

    it('notifies the holder at once, of the loss of everything else on that connection, too', async (t) => {
      const [holder, operator] = [peer(t, server.port, options), peer(t, server.port, { library })]
      const [meant, other] = [
        await holder.mutex('meant').acquire({ ttl }),
        await holder.mutex('other').acquire({ ttl }),
      ]
      const signals = [meant.signal, other.signal]
      assert.equal(await operator.forceRelease('meant'), 1)
      await until(() => signals.every(({ aborted }) => aborted))
      for (const { reason } of signals)
        assert.ok(reason instanceof LeaseLostError && reason.why === 'revoked', String(reason))
      await holder.mutex('meant').run(() => undefined)
    })

    it('in its own process loses that lock and no other', async (t) => {
      const locks = peer(t, server.port, options)
      const [meant, other] = [
        await locks.mutex('own').acquire({ ttl }),
        await locks.mutex('own, too').acquire({ ttl }),
      ]
      const { signal } = meant
      const [before] = await connections(server)
      assert.equal(await locks.forceRelease('own'), 1)
      await until(() => signal.aborted)
      assert.ok(signal.reason instanceof LeaseLostError && signal.reason.why === 'revoked')
      assert.equal(await meant.release(), 'lost')
      const strangers = peer(t, server.port, options)
      await (await strangers.mutex('own').tryAcquire())?.release()
      await locks.mutex('own').run(() => undefined)
      assert.equal(await other.release(), 'released')
      assert.ok((await connections(server)).includes(before ?? 0))
    })

    it('stays unchanged for an operator who may not end the connection, who gets an error', async (t) => {
      const prefix = `rights_${flavour}_`
      for (const statement of migration({ prefix, user: 'app' }).split(';\n'))
        if (statement.trim() !== '') await server.query(statement)
      const holder = peer(t, server.port, { ...options, prefix })
      const lease = await holder.mutex('guarded').acquire({ ttl })
      const pool = createPool({ host: server.host, port: server.port, user: 'app', database: 'holdfast' })
      const operator = createLocks(mysql({ pool, prefix }))
      t.after(async () => {
        await operator.close()
        await pool.end()
      })
      const seen = await operator.inspect('guarded')
      await assert.rejects(operator.forceRelease('guarded'), {
        code: 'BACKEND',
        message:
          /"guarded".*may not end the connection \d+ of its holder \(1095\).*nothing was changed.*KILL/s,
      })
      const { holders } = await operator.inspect('guarded')
      assert.deepEqual(
        holders.map(({ token, attempt }) => [token, attempt]),
        seen.holders.map(({ token, attempt }) => [token, attempt]),
      )
      await lease.extend()
      assert.equal(await operator.mutex('guarded').tryAcquire(), undefined)
      assert.equal(await lease.release(), 'released')
    })

    it('is released by `holdfast release`, or not, with an exit code that says which', async (t) => {
      const at = bench(server.url)
      t.after(() => at.close())
      const holder = peer(t, proxy.port, options)
      const next = peer(t, server.port, options)
      await holder.mutex('by hand').acquire({ ttl })
      proxy.up.hold()
      t.after(() => proxy.heal())
      const shown = await at.cli('ls')
      assert.match(shown.stdout, /by hand/)
      await server.query(`grant select, insert, update, delete on holdfast.* to 'app'@'%'`)
      const refused = await at.cli('release', 'by hand', '--yes', '--on', server.url.replace('root', 'app'))
      assert.deepEqual([refused.stdout, refused.code === 0], ['', false])
      assert.match(refused.stderr, /^holdfast: .*nothing was changed.*\n$/)
      assert.equal(await next.mutex('by hand').tryAcquire(), undefined)
      const released = await at.cli('release', 'by hand', '--yes')
      assert.deepEqual(
        [released.code, released.stdout, released.stderr],
        [0, 'released "by hand"; its holder was notified\n', ''],
      )
      await (await next.mutex('by hand').tryAcquire())?.release()
      assert.equal((await next.inspect('by hand')).lastToken > 0, true)
    })
  })
}

after(leakCheck)
