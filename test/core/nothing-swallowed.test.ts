import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { createLocks } from 'holdfast'
import { consul } from 'holdfast/consul'
import { etcd } from 'holdfast/etcd'
import { local } from 'holdfast/local'
import { memory } from 'holdfast/memory'
import { mysql } from 'holdfast/mysql'
import { postgres } from 'holdfast/postgres'
import { redis } from 'holdfast/redis'
import { redlock } from 'holdfast/redlock'
import { zookeeper } from 'holdfast/zookeeper'
import { LockOrder } from '../../src/core/lock-order.js'
import { onAbort } from '../../src/core/on-abort.js'
import { type Entry, TimerQueue } from '../../src/core/timer-queue.js'
import { fakeClock } from '../support/fake-clock.js'
import { leakCheck } from '../support/leaks.js'
import { script } from '../support/scripted-driver.js'

after(leakCheck)

const client = () => ({
  call: () => undefined,
  duplicate: () => undefined,
  on: () => undefined,
  off: () => undefined,
})
const pool = { query: () => undefined, connect: () => undefined, getConnection: () => undefined }

const misspelt: Readonly<
  Record<string, readonly [make: (options: never) => unknown, given: object, nearest: string]>
> = {
  redis: [redis, { client: client(), replica: 1 }, 'replicas'],
  redlock: [redlock, { clients: [client(), client(), client()], maxTTL: 5 }, 'maxTtl'],
  postgres: [postgres, { pool, stategy: 'session' }, 'strategy'],
  mysql: [mysql, { pool, conections: 2 }, 'connections'],
  etcd: [etcd, { endpoints: '127.0.0.1:1', timeout: 5 }, 'requestTimeout'],
  consul: [consul, { url: '127.0.0.1:1', lockdelay: 5 }, 'lockDelay'],
  zookeeper: [zookeeper, { servers: '127.0.0.1:1', sessionTimeOut: 5_000 }, 'sessionTimeout'],
  local: [local, { directry: '/nowhere' }, 'directory'],
}

for (const [name, [make, given, nearest]] of Object.entries(misspelt))
  test(`${name}() refuses an option that it does not know, before anything else is done`, () => {
    const asked = Object.keys(given).at(-1) as string
    assert.throws(
      () => make(given as never),
      (error: Error) => {
        assert.ok(error instanceof TypeError, String(error))
        assert.ok(error.message.includes(JSON.stringify(asked)), error.message)
        assert.ok(error.message.includes(nearest), error.message)
        return true
      },
    )
  })

test('a wrong name for what is required is named, and the right one', () => {
  const locks = createLocks(memory())
  const wrong: Record<string, readonly [make: () => unknown, message: RegExp]> = {
    redlock: [
      () => redlock({ servers: [client()] } as never),
      /unknown option "servers".* known are clients/,
    ],
    postgres: [() => postgres({ client: pool } as never), /unknown option "client".* known are pool/],
    mysql: [() => mysql({ client: pool } as never), /unknown option "client".* known are pool/],
    etcd: [() => etcd({ hosts: '127.0.0.1:1' } as never), /unknown option "hosts".* known are endpoints/],
    consul: [() => consul({ host: '127.0.0.1' } as never), /unknown option "host".* known are url/],
    zookeeper: [
      () => zookeeper({ hosts: '127.0.0.1' } as never),
      /unknown option "hosts".* known are servers/,
    ],
    semaphore: [
      () => locks.semaphore('s', { limit: 3 } as never),
      /unknown option "limit".* known are permits/,
    ],
    pool: [() => locks.pool('p', { size: 3 } as never), /unknown option "size".* known are permits/],
    'semaphore with a number': [
      () => locks.semaphore('s', 3 as never),
      /semaphore\(\) takes options such as { permits: 3 }, got 3/,
    ],
  }
  for (const [what, [make, message]] of Object.entries(wrong))
    assert.throws(make, (error: Error) => message.test(error.message) && error instanceof TypeError, what)
})

test('an option that is nearly one is named', async () => {
  const s = script()
  await assert.rejects(
    s.locks.mutex('m').acquire({ wiat: 5 } as never),
    /unknown option "wiat"; did you mean wait\?/,
  )
  assert.throws(() => createLocks(memory(), { tll: 5 } as never), /did you mean ttl\?/)
})

test('every verb refuses an option that it does not use, before it sends anything', async () => {
  await using locks = createLocks(memory())
  const pool = locks.pool('p', { permits: 2 })
  const latch = locks.latch('l')
  await latch.setCount(1)
  const inside = await locks.barrier('b', 1).enter()
  const verbs: Record<string, (given: never) => Promise<unknown>> = {
    'latch.setCount': (given) => latch.setCount(1, given),
    'latch.wait': (given) => latch.wait(given),
    'latch.join': (given) => latch.join(given),
    'pool.acquire': (given) => pool.acquire(given),
    'pool.tryAcquire': (given) => pool.tryAcquire(given),
    'pool.close': (given) => pool.close(given),
    'barrier.enter': (given) => locks.barrier('b', 1).enter(given),
    'inside.leave': (given) => inside.leave(given),
    'election.campaign': (given) => locks.election('e').campaign('me', given),
    once: (given) => locks.once('o', () => 1, given),
    revoke: (given) => locks.revoke('r', given),
    waitUntilFree: (given) => locks.mutex('m').waitUntilFree(given),
    'all.acquire': (given) => locks.all([locks.mutex('m'), locks.mutex('n')]).acquire(given),
  }
  for (const [verb, ask] of Object.entries(verbs))
    await assert.rejects(ask({ wiat: 5 } as never), /^TypeError: .*unknown option "wiat"/, verb)
  for (const option of ['wait', 'maxPending'])
    await assert.rejects(pool.tryAcquire({ [option]: 5 } as never), {
      name: 'TypeError',
      message: `tryAcquire makes one attempt and takes no ${option}; use acquire({ ${option} })`,
    })
  await inside.leave()
})

test('the argument after a name is read as defaults of that lock, or refused', () => {
  const locks = createLocks(memory())
  const makers = {
    mutex: (given: object) => locks.mutex('m', given),
    readWrite: (given: object) => locks.readWrite('m', given),
    upgradeable: (given: object) => locks.upgradeable('m', given),
    latch: (given: object) => locks.latch('m', given),
    election: (given: object) => locks.election('m', given),
    barrier: (given: object) => locks.barrier('m', 2, given),
    semaphore: (given: object) => locks.semaphore('s', { permits: 2, ...given }),
    pool: (given: object) => locks.pool('m', { permits: 2, ...given }),
  }
  for (const [kind, make] of Object.entries(makers)) {
    make({ ttl: '5s', wait: 0, fair: true })
    assert.throws(() => make({ tll: 5 }), new RegExp(`${kind}\\(\\): unknown option "tll"; did you mean ttl`))
    assert.throws(
      () => make({ ttl: '5 s' }),
      /ttl must be a number of milliseconds or text such as '30s', got "5 s"/,
    )
    assert.throws(() => make({ note: 'mine' }), /unknown option "note"/)
  }
  const names = ['a', 'b']
  // @ts-expect-error the index is no set of options
  assert.throws(() => names.map(locks.mutex), /options must be an object/)
})

test('defaults of a lock override those of all locks and are overridden by those of a call', async () => {
  await using locks = createLocks(memory(), { ttl: 60_000, wait: 60_000 })
  const lock = locks.mutex('m', { ttl: '2s', wait: 20 })
  const first = await lock.acquire({ wait: '10s' })
  assert.equal(first.ttl, 2_000)
  const began = performance.now()
  await assert.rejects(lock.acquire(), { code: 'ACQUIRE_TIMEOUT' })
  assert.ok(performance.now() - began >= 19)
  await first.release()
  const second = await lock.acquire({ ttl: '1.5m', wait: '10s' })
  assert.equal(second.ttl, 90_000)
  assert.ok((await second.extend('3s')) > 2_000)
  await second.release()
  const other = await locks.mutex('m').acquire()
  assert.equal(other.ttl, 60_000)
  await other.release()
})

test('a default wait of 0 is one attempt, as wait: 0 is', async () => {
  await using locks = createLocks(memory(), { wait: 0 })
  const lease = await locks.mutex('m').acquire()
  await assert.rejects(locks.mutex('m').acquire(), { code: 'ACQUIRE_TIMEOUT' })
  await lease.release()
  await (await locks.mutex('m', { wait: '0s' }).acquire()).release()
})

test('a thousand waits on one signal put one listener on it, and take it off', async () => {
  const warnings: unknown[] = []
  const warned = (warning: unknown) => warnings.push(warning)
  process.on('warning', warned)
  const locks = createLocks(memory())
  const lease = await locks.mutex('x').acquire()
  const controller = new AbortController()
  const { signal } = controller
  let listeners = 0
  const [add, remove] = [signal.addEventListener.bind(signal), signal.removeEventListener.bind(signal)]
  signal.addEventListener = (...args: Parameters<typeof add>) => {
    listeners++
    add(...args)
  }
  signal.removeEventListener = (...args: Parameters<typeof remove>) => {
    listeners--
    remove(...args)
  }
  const waits = Array.from({ length: 1_000 }, () =>
    assert.rejects(locks.mutex('x').acquire({ signal, wait: 2_000 }), { code: 'ACQUIRE_TIMEOUT' }),
  )
  await new Promise(setImmediate)
  assert.equal(listeners, 1)
  await Promise.all(waits)
  assert.equal(listeners, 0)
  const others = Array.from({ length: 20 }, () => locks.mutex('x').acquire({ signal }))
  await new Promise(setImmediate)
  controller.abort(new Error('enough'))
  for (const wait of others) await assert.rejects(wait, /enough/)
  await lease.release()
  await locks.close()
  await new Promise(setImmediate)
  process.off('warning', warned)
  assert.deepEqual(warnings, [])
})

test('each of those who listen to one signal is called once, and none that has left', () => {
  const controller = new AbortController()
  let called = 0
  const count = () => called++
  const leave = onAbort(controller.signal, count)
  onAbort(controller.signal, count)
  leave()
  leave()
  controller.abort()
  assert.equal(called, 1)
})

test('orders of locks are remembered within bounds, and looked through in a bounded time', () => {
  const order = new LockOrder()
  // Of the processor, not of the clock: others may want it, too.
  const began = process.cpuUsage()
  for (let i = 0; i < 50_000; i++) {
    order.note(['outer'], `inner ${i}`)
    order.note([`inner ${i}`], 'outer too')
    order.note(['outer too'], `innermost ${i}`)
  }
  assert.ok(process.cpuUsage(began).user < 10_000_000)
  assert.ok(JSON.stringify(order.note(['b'], 'a')) === undefined && order.note(['a'], 'b') !== undefined)
  assert.ok(order.size <= 20_000)
})

test('an entry that was taken out leaves nothing behind until its time', () => {
  const clock = fakeClock()
  const timetable = new TimerQueue(clock)
  const kept: Entry = { slot: undefined, onDue: () => undefined }
  timetable.set(kept, 5_000_000)
  for (let i = 0; i < 100_000; i++) {
    const entry: Entry = { slot: undefined, onDue: () => undefined }
    timetable.set(entry, 1_000_000 + i)
    timetable.remove(entry)
  }
  assert.ok(timetable.slots <= 2_002, `${timetable.slots} slots`)
  assert.equal(timetable.size, 1)
  timetable.clear()
})

test('a campaign waits without limit by default', async () => {
  const store = memory()
  const [leader, follower] = [createLocks(store, { wait: 20 }), createLocks(store, { wait: 20 })]
  const term = await leader.election('e').campaign('a')
  let led = false
  const next = follower.election('e').campaign('b')
  next.then(
    () => {
      led = true
    },
    () => undefined,
  )
  await assert.rejects(follower.mutex('e').acquire(), { code: 'ACQUIRE_TIMEOUT' })
  assert.equal(led, false)
  await term.resign()
  await (await next).resign()
  await Promise.all([leader.close(), follower.close()])
})

test('memory refuses a ttl that it could never grant', async () => {
  const locks = createLocks(memory())
  await assert.rejects(locks.mutex('x').acquire({ ttl: 2 }), RangeError)
  await (await locks.mutex('x').acquire({ ttl: 10 })).release()
  await locks.close()
})
