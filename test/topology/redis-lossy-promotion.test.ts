// A master watched by Sentinels that dies, or is frozen, after it has granted permits, read and write locks and several locks at once which its
// replica never got (H18, H20). The contrast, with `quarantine: 'off'`: everything is granted a second time.
// Second tier because Sentinels are a topology of their own, and a promotion takes a while.
import assert from 'node:assert/strict'
import { after, type TestContext, test } from 'node:test'
import type { Lock } from '../../src/core/acquire.js'
import type { Lease } from '../../src/core/lease.js'
import { createLocks, type Locks } from '../../src/create-locks.js'
import type { RedisOptions } from '../../src/drivers/redis/index.js'
import { driverOn, type Library, open } from '../drivers/redis/support/clients.js'
import { leakCheck } from '../support/leaks.js'
import { startProxy } from '../support/proxy.js'
import { type SentinelSetup, startSentinel } from '../support/servers/redis-sentinel.js'
import { until } from '../support/until.js'

const ttl = 6_000
const limit = 3

interface Process {
  readonly locks: Locks
  /** Nothing reaches it any more, and it hears nothing of that. */
  cut(): void
}

async function join(
  t: TestContext,
  setup: SentinelSetup,
  library: Library,
  options: Partial<RedisOptions>,
): Promise<Process> {
  const ports = setup.nodes.map(({ port }) => port)
  const place = { is: 'sentinel', name: setup.name, sentinels: setup.addresses, ports } as const
  const proxies = await Promise.all(ports.map((port) => startProxy({ port })))
  const opened = open(library, place, (port) => proxies[ports.indexOf(port)]?.port ?? port)
  const locks = createLocks(driverOn(opened, options), { ttl: options.maxTtl ?? ttl })
  t.after(async () => {
    await locks.close()
    await Promise.all(proxies.map((proxy) => proxy.stop()))
  })
  const cut = () => {
    for (const proxy of proxies) proxy.blackHole()
  }
  return { locks, cut }
}

/** What the first process takes, each with what others may not have beside it. */
function scene({ semaphore, readWrite, mutex, all }: Locks) {
  const rw = [readWrite('read'), readWrite('written')] as const
  const both = all([mutex('one'), mutex('two')])
  return {
    takes: [semaphore('permits', { permits: limit }), rw[0].read, rw[1].write, both],
    /** By the place of what it cannot be held together with. */
    besides: [
      [0, semaphore('permits', { permits: limit })],
      [1, rw[0].write],
      [2, rw[1].read],
      [2, rw[1].write],
      [3, mutex('one')],
      [3, mutex('two')],
    ] as readonly (readonly [number, Lock])[],
  }
}

const options = (lock: Lock) => (lock.name === 'permits' ? { permits: 2 } : {})
const takeAll = ({ takes }: ReturnType<typeof scene>): Promise<Lease[]> =>
  Promise.all(takes.map((lock) => lock.acquire(options(lock))))

/** The answer of a store that knows: while it cannot be asked, the error is neither. */
async function answered(lock: Lock): Promise<Lease | undefined> {
  let told: Lease | undefined
  await until(async () => {
    try {
      told = await lock.tryAcquire(options(lock))
      return true
    } catch (error) {
      if (['BACKEND', 'UNAVAILABLE'].includes((error as { code: string }).code)) return false
      throw error
    }
  })
  return told
}

for (const library of ['ioredis', 'node-redis'] as const)
  for (const how of ['kill', 'freeze'] as const)
    test(`H18: a promotion that lost permits, readers, a writer and a multi-lock: no second holders (${how}, ${library})`, async (t) => {
      const setup = await startSentinel()
      t.after(() => setup.stop())
      const own = { maxTtl: ttl }
      const off = { maxTtl: 300_000, quarantine: 'off', prefix: 'off:' } as const
      const [a, keeper, c] = await Promise.all([own, own, off].map((one) => join(t, setup, library, one)))
      // A client of ioredis stays at a master that is paused: those that are granted something by the new one come then.
      const others = () => Promise.all([own, off].map((one) => join(t, setup, library, one)))
      const early = how === 'kill' ? await others() : undefined
      assert.ok(a && c && keeper)
      // The replica has these: one permit of three is in use, and stays so.
      const kept = await keeper.locks.semaphore('permits', { permits: limit }).acquire()
      for (const { locks } of [a, c, ...(early ?? [])]) await locks.mutex('used before').run(() => undefined)
      const old = setup.master()
      await setup.cutReplication()
      const [lost, lostOff] = await Promise.all([takeAll(scene(a.locks)), takeAll(scene(c.locks))])
      c.cut()
      if (how === 'kill') a.cut()
      await setup.promote({ sync: false, how })
      const [b, d] = early ?? (await others())
      assert.ok(b && d)

      // Where nothing is waited for, all of it has a second holder.
      for (const [held, lock] of scene(d.locks).besides) {
        const second = await answered(lock)
        assert.ok(second, `${lock.name} is not granted again`)
        assert.ok(lostOff[held]?.isHeld, `${lock.name} is no longer believed in`)
        await second.release()
      }
      const { besides } = scene(b.locks)
      for (const [held, lock] of besides) {
        const second = await answered(lock)
        assert.ok(second === undefined || !lost[held]?.isHeld, `${lock.name} has two holders`)
        await second?.release()
      }

      if (how === 'freeze') {
        // Asked of the master that was replaced, or of the new one, which does not know them.
        const renewals = lost.map((lease) => lease.extend())
        old.resume()
        for (const told of await Promise.allSettled(renewals)) assert.equal(told.status, 'rejected')
      }
      const one = async ([held, lock]: readonly [number, Lock]) => {
        const lease = await lock.acquire({ ...options(lock), wait: 120_000 })
        const first = lost[held]
        assert.ok(first)
        assert.equal(first.isHeld, false, `${lock.name} has two holders`)
        assert.ok(lease.token > first.token)
        return lease
      }
      const leases = await Promise.all(
        besides.filter(([, { name }], i) => name !== 'written' || i === 2).map(one),
      )
      // One and two are three.
      const third = await b.locks.semaphore('permits', { permits: limit }).tryAcquire()
      assert.ok(third === undefined || !kept.isHeld, 'more permits are held than there are')
      await third?.release()
      for (const lease of leases) assert.equal(await lease.release(), 'released')
    })

after(leakCheck)
