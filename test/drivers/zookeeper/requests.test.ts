// What locks cost the server, counted by the server itself and by the session.
// Second tier because crowds take long to count; conformance/zookeeper.test.ts is the part for every change.
import assert from 'node:assert/strict'
import { setMaxListeners } from 'node:events'
import { after, describe, test } from 'node:test'
import { createLocks, type DriverFactory, type Locks } from 'holdfast'
import type { Driver } from '../../../src/core/driver.js'
import { systemEnv } from '../../../src/core/engine.js'
import { type ZookeeperOptions, zookeeper } from '../../../src/drivers/zookeeper/index.js'
import { leakCheck } from '../../support/leaks.js'
import { startZookeeper } from '../../support/servers/zookeeper.js'
import { until } from '../../support/until.js'
import { claim, once, waiting } from '../support/asking.js'

const server = await startZookeeper({ config: ['maxSessionTimeout=600000'] })
// So long that no ping falls into a count: one would come after 50 s of silence.
const calm = { servers: server.address, sessionTimeout: 300_000, tickTime: 500 }
const open = (strategy: 'line' | 'simple' = 'line'): Locks => {
  const driver: DriverFactory = zookeeper({ ...calm, strategy, chroot: `/${strategy}` } as ZookeeperOptions)
  return createLocks(driver)
}

const asking = Number(await server.received())
const perAsk = (await server.received()) - asking

const watches = async () => Number(/Total watches:(\d+)/.exec(await server.ask('wchs'))?.[1])

/** Packets the server received while `work` ran, without those of the counting. */
async function packets(work: () => Promise<void>): Promise<number> {
  const before = await server.received()
  await work()
  return (await server.received()) - before - perAsk
}

describe('the line', () => {
  test('takes a free lock and gives it back with three requests', async () => {
    const locks = open()
    const lock = locks.mutex('uncontended')
    await lock.run(() => undefined)
    const rounds = 50
    const sent = await packets(async () => {
      for (let i = 0; i < rounds; i++) await lock.run(() => undefined)
    })
    assert.equal(sent, 3 * rounds)
    await locks.close()
  })

  test('hands over with two requests, however many wait, and one event', async () => {
    const waiting = 200
    const crowd = [open(), open(), open(), open()]
    const holder = open()
    const name = 'crowded'
    // A renewal would watch its own node, too.
    const first = await holder.mutex(name).acquire({ ttl: 600_000, autoRenew: false })
    const order: number[] = []
    let toCome = waiting
    let go: () => void = () => undefined
    const stopped = new Promise<void>((resolve) => {
      go = resolve
    })
    const waits: Promise<void>[] = []
    for (let i = 0; i < waiting; i++) {
      const lock = (crowd[i % crowd.length] as Locks).mutex(name)
      waits.push(
        lock.run(
          async ({ token }) => {
            order.push(token)
            toCome--
            if (toCome === waiting - 100) await stopped
          },
          { fair: true, wait: 60_000 },
        ),
      )
    }
    await until(async () => (await holder.inspect(name)).waiters.length === waiting, {
      within: 60_000,
      every: 50,
    })
    // A place is there before its watch is: each has one, and has been answered all it asked.
    await until(async () => (await watches()) === waiting, { within: 60_000, every: 20 })
    await Promise.all(crowd.map((locks) => locks.inspect('-')))
    const sent = await packets(async () => {
      await first.release()
      await until(() => order.length === 100, { within: 60_000, every: 1 })
    })
    // A delete and a list each.
    assert.equal(sent, 200)
    assert.deepEqual(
      order,
      [...order].sort((a, b) => a - b),
    )
    // One each, and those of the holders on their own node.
    const left = await watches()
    assert.ok(left <= waiting - 100 + 2, `${left} watches`)
    go()
    await Promise.all(waits)
    for (const locks of [...crowd, holder]) await locks.close()
  })

  test('passes a grant on inside its process with one request, also while another process waits', async () => {
    const env = systemEnv()
    const open = (): Driver => zookeeper({ ...calm, chroot: '/line' })(env)
    const [driver, other] = [open(), open()]
    const grant = await driver.acquire(claim('passed', { ttl: 600_000 }), once())
    const next = other.acquire(claim('passed', { ttl: 600_000 }), waiting())
    await until(async () => (await server.ask('wchp')).includes('/line/passed'))
    // Answered after all that the waiter has asked.
    await other.inspect('passed')
    assert.ok(grant)
    let newest = grant.token
    const sent = await packets(async () => {
      for (let i = 0; i < 10; i++) {
        const token = await grant.nextToken?.()
        assert.ok(token !== undefined && token > newest, `${token} came after ${newest}`)
        newest = token
      }
    })
    assert.equal(sent, 10)
    assert.equal((await other.inspect('passed')).holders[0]?.token, newest)
    // The waiter's place is older than these tokens, so it asks for a newer one.
    await grant.release()
    const after = await next
    assert.ok(after && after.token > newest, `${after?.token} came after ${newest}`)
    assert.equal((await driver.inspect('passed')).holders[0]?.token, after.token)
    await after.release()
    for (const one of [driver, other]) await one.close()
  })

  test('finds a taken lock taken without a queue entry, with two requests', async () => {
    const [a, b] = [open(), open()]
    const lease = await a.mutex('taken').acquire({ ttl: 600_000, autoRenew: false })
    await b.mutex('taken').tryAcquire()
    const sent = await packets(async () => {
      for (let i = 0; i < 20; i++) assert.equal(await b.mutex('taken').tryAcquire(), undefined)
    })
    assert.equal(sent, 40)
    await lease.release()
    for (const locks of [a, b]) await locks.close()
  })

  test('keeps a hundred leases alive with heartbeats of the session, and one look at each', async () => {
    const locks = open()
    // Renewed by hand, so that nothing else is sent.
    const options = { ttl: 600_000, autoRenew: false }
    const leases = await Promise.all(
      Array.from({ length: 100 }, (_, i) => locks.mutex(`kept ${i}`).acquire(options)),
    )
    const renewal = () =>
      packets(async () => {
        for (const left of await Promise.all(leases.map((lease) => lease.extend()))) assert.ok(left > 0)
      })
    assert.equal(await renewal(), 100)
    assert.equal(await watches(), 100)
    for (let i = 0; i < 3; i++) assert.equal(await renewal(), 0)
    await Promise.all(leases.map((lease) => lease.release()))
    await locks.close()
  })

  test('keeps a thousand leases that renew themselves with heartbeats alone, and leaves no watch behind', async () => {
    const before = await watches()
    const quick = { servers: server.address, sessionTimeout: 9_000, tickTime: 500, chroot: '/line' }
    const locks = createLocks(zookeeper(quick))
    const leases = []
    // Taken at a thousand different moments, so that no two are due together.
    for (let i = 0; i < 1_000; i++) leases.push(await locks.mutex(`self ${i}`).acquire())
    await until(async () => (await watches()) === before + 1_000, { within: 60_000, every: 50 })
    const began = performance.now()
    const sent = await packets(() => new Promise((resolve) => setTimeout(resolve, 6_000)))
    const took = performance.now() - began
    // One every 1.5 s.
    assert.ok(sent <= took / 1_500 + 2, `${sent} packets in ${took} ms`)
    assert.ok(leases.every(({ state }) => state === 'held'))
    await Promise.all(leases.map((lease) => lease.release()))
    assert.equal(await watches(), before)
    await locks.close()
  })

  test('serves a thousand fair waiters of one process, and takes no server for dead that is busy answering', async () => {
    const own = { servers: server.address, sessionTimeout: 9_000, tickTime: 500, chroot: '/line' }
    const [holder, crowd] = [createLocks(zookeeper(own)), createLocks(zookeeper(own))]
    const first = await holder.mutex('thousand').acquire()
    const troubles: string[] = []
    crowd.on('waiting', ({ blocked }) => blocked.error && troubles.push(blocked.error.message))
    let served = 0
    const stop = new AbortController()
    setMaxListeners(0, stop.signal)
    const waits = Array.from({ length: 1_000 }, () =>
      crowd
        .mutex('thousand')
        .run(() => void served++, { fair: true, wait: Number.POSITIVE_INFINITY, signal: stop.signal }),
    )
    for (const wait of waits) wait.catch(() => undefined)
    await until(async () => (await holder.inspect('thousand')).waiters.length === 1_000, {
      within: 60_000,
      every: 200,
    })
    await first.release()
    await until(() => served >= 200, { within: 30_000, every: 20 })
    stop.abort(new Error('enough'))
    await Promise.allSettled(waits)
    assert.deepEqual(troubles, [])
    // A wait is over as soon as it is aborted; its entry is removed after that.
    await until(async () => (await holder.inspect('thousand')).waiters.length === 0)
    for (const locks of [holder, crowd]) await locks.close()
  })
})

describe('the textbook lock', () => {
  test('every release wakes all waiters, all but one in vain', async () => {
    const waiting = 50
    const holder = open('simple')
    const crowd = Array.from({ length: waiting }, () => open('simple'))
    const first = await holder.mutex('herd').acquire()
    let inside = 0
    let most = 0
    let served = 0
    let go: () => void = () => undefined
    const stopped = new Promise<void>((resolve) => {
      go = resolve
    })
    const waits = crowd.map((locks) =>
      locks.mutex('herd').run(
        async () => {
          most = Math.max(most, ++inside)
          if (++served === 1) await stopped
          inside--
        },
        { wait: 60_000 },
      ),
    )
    await until(async () => (await watches()) >= waiting, { within: 60_000 })
    const sent = await packets(async () => {
      await first.release()
      await until(() => served === 1, { within: 60_000 })
      await until(async () => (await watches()) >= waiting - 1, { within: 60_000 })
    })
    // Of the line it would be two.
    assert.ok(sent > 2 * waiting, `${sent} packets for one hand-over`)
    go()
    await Promise.all(waits)
    assert.equal(most, 1)
    assert.equal(served, waiting)
    for (const locks of [...crowd, holder]) await locks.close()
  })

  test('has tokens that grow, knows a try from a wait, and tells who holds', async () => {
    const [a, b] = [open('simple'), open('simple')]
    const lease = await a.mutex('plain').acquire({ note: 'first' })
    assert.equal(await b.mutex('plain').tryAcquire(), undefined)
    const notes: unknown[] = []
    b.on('waiting', ({ blocked }) => notes.push(blocked.holder?.note))
    const enough = new AbortController()
    const waits = assert.rejects(b.mutex('plain').acquire({ signal: enough.signal }), { name: 'AbortError' })
    await until(() => notes.includes('first'))
    enough.abort()
    await waits
    const { holders } = await b.inspect('plain')
    assert.deepEqual(
      holders.map(({ token, note }) => ({ token, note })),
      [{ token: lease.token, note: 'first' }],
    )
    assert.equal(await b.forceRelease('plain'), 1)
    const second = await b.mutex('plain').acquire()
    assert.ok(second.token > lease.token)
    // Its node is gone and another has that name: it must not be removed by the first.
    assert.match(await lease.release(), /lost|released/)
    assert.equal((await a.inspect('plain')).holders[0]?.token, second.token)
    assert.equal(await second.release(), 'released')
    assert.throws(() => a.readWrite('plain'), { code: 'UNSUPPORTED' })
    for (const locks of [a, b]) await locks.close()
  })

  test('refuses a queued node, and the other way round', async () => {
    const line = createLocks(zookeeper({ ...calm, chroot: '/mixed' }))
    const simple = createLocks(zookeeper({ ...calm, chroot: '/mixed', strategy: 'simple' }))
    const lease = await simple.mutex('x').acquire()
    await assert.rejects(line.mutex('x').acquire(), {
      code: 'BACKEND',
      message: /strategy simple/,
    })
    await lease.release()
    await line.mutex('x').run(() => undefined)
    await assert.rejects(simple.mutex('x').acquire(), /it is a queue/)
    for (const locks of [line, simple]) await locks.close()
  })
})

after(() => server.stop())
after(leakCheck)
