// What breaks under a row: connections killed at every step, lost answers, a server killed or stopped, pools used up, clocks that jump.
// Second tier because it takes half a minute; the suite's outage and mysql-found.test.ts are the part for every change.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { after, before, describe, it } from 'node:test'
import { LeaseLostError } from 'holdfast'
import { createPool } from 'mysql2/promise'
import { systemEnv } from '../../src/core/engine.js'
import { createLocks } from '../../src/create-locks.js'
import { mysql } from '../../src/drivers/mysql/index.js'
import { connections, deadlocks, killAll, pause, peer, statements } from '../drivers/mysql/support/peer.js'
import { claim, never, waiting } from '../drivers/support/asking.js'
import { leakCheck } from '../support/leaks.js'
import { startProxy, type TcpProxy } from '../support/proxy.js'
import { type MysqlServer, startMysql } from '../support/servers/mysql.js'
import { until } from '../support/until.js'

describe('a row', { concurrency: false }, () => {
  let server: MysqlServer
  let proxy: TcpProxy
  before(async () => {
    server = await startMysql({ preload: ['clock'], args: ['--innodb-lock-wait-timeout=20'] })
    proxy = await startProxy({ port: server.port })
  })
  after(async () => {
    await proxy.stop()
    await server.stop()
  })

  it('costs two statements when nobody else wants it, and keeps no connection', async (t) => {
    const locks = peer(t, server.port)
    const lock = locks.mutex('counted')
    await lock.run(() => undefined)
    const hundred = async () => {
      for (let i = 0; i < 100; i++) await (await lock.acquire()).release()
    }
    assert.deepEqual(await statements(server, hundred), { update: 200 })
    for (const shared of [locks.readWrite('readers').read, locks.semaphore('places', { permits: 3 })]) {
      await shared.run(() => undefined)
      const once = async () => void (await (await shared.acquire()).release())
      assert.deepEqual(await statements(server, once), { update: 2 })
    }
    const busy = peer(t, server.port)
    const held = await lock.acquire()
    const tried = async () => assert.equal(await busy.mutex('counted').tryAcquire(), undefined)
    await tried()
    assert.deepEqual(await statements(server, tried), { update: 1, select: 1 })
    await held.release()
  })

  it('lets nobody overtake a waiter that was told to wait, also when another one takes the lock as its queue entry is made', async (t) => {
    const [a, b, c, d] = [
      peer(t, server.port),
      peer(t, proxy.port),
      peer(t, server.port),
      peer(t, server.port),
    ]
    for (const { mutex } of [a, b, c, d]) await mutex('warm').run(() => undefined)
    const first = await a.mutex('passed').acquire({ ttl: 60_000 })
    proxy.up.hold('INSERT INTO `holdfast`.`holdfast_waiters`')
    let told = false
    b.on('waiting', () => {
      told = true
    })
    const next = b.mutex('passed').acquire({ wait: 60_000 })
    await proxy.up.holding()
    await first.release()
    // It looks, sees nobody in the queue, and says so as it takes the lock.
    const second = await c.mutex('passed').acquire({ ttl: 60_000 })
    proxy.up.pass()
    await until(() => told)
    proxy.up.hold()
    await second.release()
    assert.equal(await d.mutex('passed').tryAcquire(), undefined)
    proxy.up.pass()
    await (await next).release()
  })

  for (const fault of ['its answer is lost', 'its connection is killed before the answer'] as const) {
    it(`is held once when a statement was carried out and ${fault}: taking, proving, giving back`, async (t) => {
      const [ours, other] = [peer(t, proxy.port), peer(t, server.port)]
      const lock = ours.mutex('answers')
      await lock.run(() => undefined)
      const answers = (work: Promise<unknown>) =>
        work.then(
          () => true,
          () => false,
        )
      const breakNext = async <T>(begin: () => Promise<T>): Promise<T> => {
        // Its pool has a connection then, and what is held back is an answer, no greeting.
        await until(() => answers(ours.inspect('answers')))
        proxy.down.hold()
        const answer = begin()
        await proxy.down.holding()
        if (fault === 'its answer is lost') proxy.reset()
        else await killAll(server)
        proxy.heal()
        return answer
      }
      const lease = await breakNext(() => lock.acquire())
      assert.equal(lease.isHeld, true)
      assert.equal(await other.mutex('answers').tryAcquire(), undefined)
      await breakNext(() => lease.extend().catch(() => undefined))
      assert.equal(lease.isHeld, true)
      // The answer may be read, and the next statement sent, before the end of the connection is seen.
      await until(() => answers(lease.extend()))
      const { token } = lease
      assert.match(await breakNext(() => lease.release()), /^(released|unknown)$/)
      await until(async () => {
        const next = await other
          .mutex('answers')
          .tryAcquire()
          .catch(() => undefined)
        assert.ok(next === undefined || next.token > token)
        await next?.release()
        return next !== undefined
      })
    })
  }

  it('loses no increment while all connections are killed again and again, and tells nobody', async (t) => {
    const clients = Array.from({ length: 4 }, () => peer(t, server.port))
    let inside = 0
    let served = 0
    let killed = 0
    let go = true
    const killing = (async () => {
      while (go) {
        const began = performance.now()
        killed += await killAll(server)
        // However slow the machine: somebody must have the time to connect and be answered.
        await pause(Math.max(30, 3 * (performance.now() - began)))
      }
    })()
    const section = async () => {
      assert.equal(++inside, 1, 'two inside')
      await pause(1)
      inside--
      served++
    }
    let runs = 0
    const work = clients.flatMap((locks) =>
      Array.from({ length: 3 }, async () => {
        // On a slow machine that is long enough, too.
        for (let i = 0; i < 5 || killed <= 20; i++) {
          runs++
          await locks.mutex('killed').run(section, { fair: true, wait: 60_000, ttl: 5_000 })
        }
      }),
    )
    await Promise.all(work).finally(() => {
      go = false
    })
    await killing
    assert.ok(runs >= 60 && killed > 20)
    assert.equal(served, runs)
  })

  it('takes nothing when its claim was given up, however late the statement is carried out', async (t) => {
    const real = createPool(server.url)
    let away = false
    // The process can say nothing more: not even that it gives up.
    const pool = {
      getConnection: () => (away ? Promise.reject(new Error('away')) : real.getConnection()),
    }
    const dead = createLocks(mysql({ pool, commandTimeout: 200 }))
    const locks = peer(t, server.port)
    const blocker = await createPool(server.url).getConnection()
    t.after(async () => {
      blocker.destroy()
      await dead.close()
      await real.end()
    })
    await locks.mutex('late').run(() => undefined)
    await dead.mutex('warm').run(() => undefined)
    const version = async () =>
      (await server.query(`select kind, version from holdfast_locks where name = 'late'`))[0]
    const before = await version()
    await blocker.query('begin')
    await blocker.query(`select * from holdfast_locks where name = 'late' for update`)
    const gone = new AbortController()
    const reason = new Error('given up')
    const refused = assert.rejects(
      dead.mutex('late').acquire({ wait: 60_000, ttl: 60_000, signal: gone.signal }),
      (error) => error === reason,
    )
    const underWay = async () => (await statesOf(server)).some((state) => /^update/i.test(state))
    await until(underWay, { what: 'the statement to wait for the row' })
    away = true
    gone.abort(reason)
    await refused
    // It waits in the server for the row, longer than it is good for.
    await pause(900)
    assert.equal(await underWay(), true)
    await blocker.query('commit')
    await until(async () => !(await underWay()))
    assert.deepEqual(await version(), before)
    await (await locks.mutex('late').acquire({ wait: 0 })).release()
  })

  it('is not left waiting for by a client that closes its locks as the server comes back after an outage', async (t) => {
    const cable = await startProxy({ port: server.port })
    const [a, b] = [peer(t, server.port), peer(t, cable.port)]
    t.after(() => cable.stop())
    const held = await a.mutex('closed in the queue').acquire({ ttl: 120_000 })
    const [gone, reason] = [new AbortController(), new Error('given up')]
    const waits = b.mutex('closed in the queue').acquire({ wait: 60_000, signal: gone.signal })
    await until(async () => (await a.inspect('closed in the queue')).waiters.length === 1)
    cable.refuse()
    cable.reset()
    gone.abort(reason)
    await assert.rejects(waits, (error) => error === reason)
    await cable.accept()
    await b.close()
    const rows = await server.query(`select attempt from holdfast_waiters where name = 'closed in the queue'`)
    assert.deepEqual(rows, [])
    await held.release()
  })

  it('is not waited for by locks that are closed while the server is away for a moment more', async (t) => {
    const cable = await startProxy({ port: server.port })
    const [a, b] = [peer(t, server.port), peer(t, cable.port)]
    t.after(() => cable.stop())
    const held = await a.mutex('closed before').acquire({ ttl: 120_000 })
    const [gone, reason] = [new AbortController(), new Error('given up')]
    const waits = b.mutex('closed before').acquire({ wait: 60_000, signal: gone.signal })
    await until(async () => (await a.inspect('closed before')).waiters.length === 1)
    cable.refuse()
    cable.reset()
    gone.abort(reason)
    await assert.rejects(waits, (error) => error === reason)
    const closed = b.close()
    await new Promise((resolve) => setTimeout(resolve, 100))
    await cable.accept()
    await closed
    const rows = await server.query(`select attempt from holdfast_waiters where name = 'closed before'`)
    assert.deepEqual(rows, [])
    await held.release()
  })

  it('is not held by a client that never learned of its grant and closes its locks as the server comes back', async (t) => {
    const cable = await startProxy({ port: server.port })
    const [a, b] = [peer(t, server.port), peer(t, cable.port)]
    t.after(() => cable.stop())
    // The row is there, and one statement takes it.
    await b.mutex('closed as holder').run(() => undefined)
    cable.down.hold()
    const [gone, reason] = [new AbortController(), new Error('given up')]
    const takes = b.mutex('closed as holder').acquire({ ttl: 60_000, wait: 60_000, signal: gone.signal })
    await until(async () => (await a.inspect('closed as holder')).holders.length === 1)
    cable.refuse()
    cable.reset()
    gone.abort(reason)
    await assert.rejects(takes, (error) => error === reason)
    cable.heal()
    await cable.accept()
    await b.close()
    assert.deepEqual((await a.inspect('closed as holder')).holders, [])
  })

  it('lets the locks of a wait that is still to be ended be closed while the server is away', async (t) => {
    for (const leave of ['refuse', 'blackHole'] as const) {
      const cable = await startProxy({ port: server.port })
      const [a, b] = [peer(t, server.port), peer(t, cable.port, { commandTimeout: 500 })]
      t.after(() => cable.stop())
      const held = await a.mutex(leave).acquire({ ttl: 120_000 })
      const [gone, reason] = [new AbortController(), new Error('given up')]
      const waits = b.mutex(leave).acquire({ wait: 60_000, signal: gone.signal })
      await until(async () => (await a.inspect(leave)).waiters.length === 1)
      cable[leave]()
      if (leave === 'refuse') cable.reset()
      gone.abort(reason)
      await assert.rejects(waits, (error) => error === reason)
      const since = performance.now()
      await b.close()
      assert.ok(performance.now() - since < 10_000)
      await held.release()
    }
  })

  it('never makes anybody wait for its pool: 50 waiters, a pool of 5, and a holder that needs it', async (t) => {
    const pool = createPool({ uri: server.url, connectionLimit: 5 })
    const holder = createLocks(mysql({ pool }))
    const waiters = Array.from({ length: 50 }, () => createLocks(mysql({ pool })))
    t.after(async () => {
      await Promise.all([holder, ...waiters].map((locks) => locks.close()))
      await pool.end()
    })
    const lease = await holder.mutex('shared pool').acquire()
    const order: number[] = []
    const waits = waiters.map((locks, i) =>
      locks.mutex('shared pool').run(() => void order.push(i), { wait: 60_000 }),
    )
    await until(async () => (await holder.inspect('shared pool')).waiters.length === 50, { within: 20_000 })
    await Promise.all(Array.from({ length: 20 }, () => pool.query('select sleep(0.01)')))
    assert.deepEqual(order, [], 'the holder could query only when nobody waited any more')
    assert.equal(lease.isHeld, true)
    await lease.release()
    await Promise.all(waits)
    assert.equal(order.length, 50)
  })

  it('is refused at once when the pool is used up, and granted when it is not', async (t) => {
    const pool = createPool({ uri: server.url, connectionLimit: 1 })
    const locks = createLocks(mysql({ pool, commandTimeout: 200 }))
    t.after(async () => {
      await locks.close()
      await pool.end()
    })
    await locks.mutex('used up').run(() => undefined)
    const only = await pool.getConnection()
    await assert.rejects(locks.mutex('used up').tryAcquire(), { code: 'UNAVAILABLE' })
    const refused = new Promise<void>((resolve) => {
      locks.on('waiting', ({ blocked }) => blocked.error !== undefined && resolve())
    })
    const waiting = locks.mutex('used up').acquire({ wait: 60_000 })
    await refused
    only.release()
    await (await waiting).release()
  })

  it('survives a server that is killed and comes back with its data, held by the same', async (t) => {
    const [a, b] = [peer(t, server.port), peer(t, server.port)]
    const lease = await a.mutex('restart').acquire({ ttl: 120_000 })
    const next = b.mutex('restart').acquire({ wait: 60_000 })
    await until(async () => (await a.inspect('restart')).waiters.length === 1)
    await server.restart()
    await lease.extend()
    assert.equal(lease.isHeld, true)
    assert.equal(await lease.release(), 'released')
    const second = await next
    assert.ok(second.token > lease.token)
    await second.release()
  })

  it('has greater tokens in a database that was lost and made anew', async (t) => {
    const locks = peer(t, server.port)
    const before = await locks.mutex('forgotten').acquire()
    await before.release()
    await server.query('drop table holdfast_locks, holdfast_waiters')
    const again = await locks.mutex('forgotten').acquire()
    assert.ok(again.token > before.token)
    await again.release()
  })

  it('ends early when the clock of the server jumps ahead; its holder is notified, and tokens grow', async (t) => {
    const [a, b] = [peer(t, server.port), peer(t, server.port)]
    const lease = await a.mutex('ahead').acquire({ ttl: 3_000 })
    const { signal } = lease
    server.clockJump(3_600_000)
    const second = await b.mutex('ahead').acquire({ wait: 60_000 })
    assert.ok(second.token > lease.token)
    await until(() => signal.aborted)
    assert.ok(signal.reason instanceof LeaseLostError)
    await second.release()
    // Everybody knows the new time, and continues.
    await a.mutex('ahead').run(() => undefined)
  })

  it('does not keep cells from being written when the clock of the server jumps ahead', async (t) => {
    const pool = createPool(server.url)
    const env = systemEnv()
    const driver = mysql({ pool })(env)
    t.after(async () => {
      await driver.close()
      await pool.end()
    })
    const write = (seen: number) => {
      const change = { ifVersion: seen, value: 'x', ttl: Number.POSITIVE_INFINITY, id: env.id() }
      return driver.cells?.write('ahead', change, never)
    }
    const first = await write(0)
    assert.ok(first)
    server.clockJump(60_000)
    try {
      const second = await write(first.version)
      assert.ok(
        second !== undefined && second.version > first.version,
        'somebody is said to have been faster',
      )
      assert.equal(await write(first.version), undefined)
    } finally {
      server.clockJump(-60_000)
    }
  })

  it('reads a reply that arrived while the event loop was blocked before it gives its request up', async (t) => {
    const locks = peer(t, server.port, { commandTimeout: 200 })
    await locks.mutex('stood still').run(() => undefined)
    const asked = locks.mutex('stood still').tryAcquire({ ttl: 60_000 })
    // It leaves now. Nothing is read here until the server has carried it out, and its time is over.
    await new Promise(setImmediate)
    const script = `(async () => {
      const began = performance.now()
      const other = await require('mysql2/promise').createConnection(${JSON.stringify(server.url)})
      const held = "select 1 from holdfast_locks where name = 'stood still' and kind = 'x'"
      for (let seen = 0; seen < 3 || performance.now() < began + 400; ) {
        if ((await other.query(held))[0].length > 0) seen++
        await new Promise((resolve) => setTimeout(resolve, 20))
      }
      process.exit()
    })()`
    const { status } = spawnSync(process.execPath, ['-e', script], { timeout: 20_000, stdio: 'inherit' })
    assert.equal(status, 0)
    const lease = await asked
    assert.ok(lease, 'the answer was there')
    await lease.release()
  })

  it('is not kept for an hour when its holder died and the clock is put back by one', async (t) => {
    const [a, b] = [peer(t, server.port), peer(t, server.port)]
    const pool = createPool(server.url)
    t.after(() => pool.end())
    // A driver without the core around it: nobody gives the grant back.
    const dead = mysql({ pool })(systemEnv())
    const grant = await dead.acquire(claim('back', { ttl: 1_000 }), waiting())
    const other = await a.mutex('back, alive').acquire({ ttl: 10_000 })
    server.clockJump(-3_600_000)
    const second = await b.mutex('back').acquire({ wait: 60_000 })
    assert.ok(grant !== undefined && grant.validUntil < systemEnv().clock.now())
    assert.ok(second.token > grant.token)
    assert.equal(await b.mutex('back, alive').tryAcquire(), undefined)
    assert.equal(other.isHeld, true)
    await second.release()
    await other.release()
  })

  it('is not reserved for a dead waiter when the clock is set back to a time when it lived', async (t) => {
    const [a, b] = [peer(t, server.port), peer(t, server.port)]
    const held = await a.mutex('died').acquire({ ttl: 60_000 })
    const now = `timestampdiff(microsecond, '1970-01-01', utc_timestamp(6))`
    await server.query(
      `insert into holdfast_waiters (name, attempt, kind, since, seen) values ('died', 'died', 'x', ${now}, ${now})`,
    )
    const next = b.mutex('died').acquire({ wait: 60_000 })
    await until(async () => {
      const [row] = await server.query(
        `select seen, ${now} - seen as age from holdfast_waiters where attempt = 'died'`,
      )
      // By the clock of the server it never dies.
      if (Number(row?.['age']) > 1_000_000 && Number(row?.['seen']) > 0) server.clockJump(-2_000)
      return Number(row?.['seen']) === 0
    })
    assert.equal(held.isHeld, true)
    await held.release()
    await (await next).release()
    await server.query(`delete from holdfast_waiters where attempt = 'died'`)
  })

  it('is believed for its ttl at most when the clock is put back before a lost answer is looked for', async (t) => {
    const locks = peer(t, proxy.port)
    const lock = locks.mutex('lost, back')
    await lock.run(() => undefined)
    const ttl = 30_000
    proxy.down.hold()
    const asked = lock.acquire({ ttl, wait: 60_000 })
    await proxy.down.holding()
    server.clockJump(-3_600_000)
    proxy.reset()
    proxy.heal()
    const lease = await asked
    assert.ok(lease.remaining() <= ttl, `${lease.remaining()} ms left`)
    assert.equal(await lease.release(), 'released')
  })

  it('is the same lock for clients in different time zones', async (t) => {
    const zoned = (zone: string) => {
      const pool = createPool({ uri: server.url })
      pool.pool.on('connection', (connection) => connection.query(`set time_zone = '${zone}'`))
      const locks = createLocks(mysql({ pool }))
      t.after(async () => {
        await locks.close()
        await pool.end()
      })
      return locks
    }
    const [west, east] = [zoned('-11:00'), zoned('+13:00')]
    const lease = await west.mutex('zones').acquire({ ttl: 60_000 })
    assert.equal(await east.mutex('zones').tryAcquire(), undefined)
    const [holder] = (await east.inspect('zones')).holders
    assert.ok(holder !== undefined && holder.expiresIn > 20_000 && holder.expiresIn <= 60_000)
    await lease.release()
    await east.mutex('zones').run(() => undefined)
  })

  it('serves a storm of 16 clients without one error, and without one deadlock, at every isolation level', async (t) => {
    const before = await deadlocks(server)
    const levels = ['read uncommitted', 'read committed', 'repeatable read', 'serializable']
    const clients = Array.from({ length: 16 }, (_, i) => {
      const pool = createPool({ uri: server.url, connectionLimit: 3 })
      pool.pool.on('connection', (connection) =>
        connection.query(`set session transaction isolation level ${levels[i % 4]}`),
      )
      const locks = createLocks(mysql({ pool }))
      t.after(async () => {
        await locks.close()
        await pool.end()
      })
      return locks
    })
    const inside = new Map<string, number>()
    const end = performance.now() + 5_000
    let served = 0
    const section = (name: string) => async () => {
      assert.equal(inside.get(name) ?? 0, 0, 'two inside')
      inside.set(name, 1)
      await pause(0)
      inside.set(name, 0)
      served++
    }
    const storm = clients.map(async (locks, i) => {
      for (let n = i; performance.now() < end || served <= 100; n++) {
        const name = `storm ${n % 3}`
        const chance = n % 5
        if (chance === 0) await locks.readWrite(`shared ${n % 2}`).read.run(() => pause(0))
        else if (chance === 1) await locks.semaphore('permits', { permits: 4 }).run(() => pause(0))
        else if (chance === 2) await (await locks.mutex(name).tryAcquire())?.release()
        else await locks.mutex(name).run(section(name))
      }
    })
    await Promise.all(storm)
    assert.equal(await deadlocks(server), before)
  })

  it('deletes rows that nobody has used for long, waiters that are dead, and nothing else', async (t) => {
    const locks = peer(t, server.port)
    for (const name of ['old', 'used']) await locks.mutex(name).run(() => undefined)
    const held = await locks.mutex('held').acquire()
    const hour = 3_600_000_000
    await server.query(
      `update holdfast_locks set top = top - ${hour}, token = token - ${hour} where name in ('old', 'held')`,
    )
    await server.query(
      `insert into holdfast_waiters (name, attempt, kind, since, seen) values ('old', 'dead', 'x', 0, 1)`,
    )
    const reaper = peer(t, server.port, { retention: 60_000, env: { random: () => -0.5 } })
    await reaper.mutex('any').run(() => undefined)
    await reaper.mutex('any').run(() => undefined)
    const names = async () =>
      (await server.query('select name from holdfast_locks')).map((row) => String(row['name']))
    await until(async () => !(await names()).includes('old'))
    assert.ok((await names()).includes('used') && (await names()).includes('held'))
    await until(async () => (await server.query('select * from holdfast_waiters')).length === 0)
    await held.release()
    await locks.mutex('old').run((lease) => assert.equal(lease.isHeld, true))
  })

  it('leaves no connection when its locks and their pool are closed', async (t) => {
    const locks = peer(t, server.port)
    await locks.mutex('closed').run(() => undefined)
    await locks.close()
    await until(async () => (await connections(server)).length <= 5)
  })
})

async function statesOf(server: MysqlServer): Promise<readonly string[]> {
  const rows = await server.query(
    'select info from information_schema.processlist where id <> connection_id() and info is not null',
  )
  return rows.map((row) => String(row['info']))
}

after(leakCheck)
