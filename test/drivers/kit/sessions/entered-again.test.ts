// A claim whose entry was removed enters the queue again, with the same key, at the end. Those that waited for its first entry wait no longer:
// otherwise it would wait for them, and they for it.
import assert from 'node:assert/strict'
import { after, type TestContext, test } from 'node:test'
import type { Driver, Grant } from '../../../../src/core/driver.js'
import { leakCheck } from '../../../support/leaks.js'
import type { TcpProxy } from '../../../support/proxy.js'
import { startConsul } from '../../../support/servers/consul.js'
import { startEtcd } from '../../../support/servers/etcd.js'
import { until } from '../../../support/until.js'
import * as onConsul from '../../consul/support/scene.js'
import * as onEtcd from '../../etcd/support/scene.js'
import { once, waiting } from '../../support/asking.js'
import { claim } from '../../support/session-store.js'

const [etcd, consul] = await Promise.all([startEtcd(), startConsul()])
after(() => Promise.all([etcd.stop(), consul.stop()]))

/** So long that no heartbeat comes to help. */
const ttl = 600_000

interface Store {
  readonly name: string
  direct(t: TestContext): Driver
  cabled(t: TestContext): Promise<{ readonly driver: Driver; readonly cable: TcpProxy }>
  /** The keys in the queue, in its order. */
  keys(name: string): Promise<readonly string[]>
  remove(key: string): Promise<unknown>
  /** Its value and session are kept, and its position is a new one. */
  replace(name: string, key: string): Promise<unknown>
  /** What asks for the change of an entry, and what answers that it is gone. */
  readonly question: (bytes: Buffer) => boolean
  readonly answer: (bytes: Buffer) => boolean
}

const stores: readonly Store[] = [
  {
    name: 'etcd',
    direct: (t) => onEtcd.driverOf(t, etcd.url),
    cabled: (t) => onEtcd.cabled(t, etcd),
    keys: async (name) => (await onEtcd.placesOf(etcd, name)).map(({ key }) => key),
    remove: (key) => etcd.ask('/v3/kv/deleterange', { key }),
    replace: async (name, key) => {
      const place = (await onEtcd.placesOf(etcd, name)).find((one) => one.key === key)
      await etcd.ask('/v3/kv/deleterange', { key })
      await etcd.ask('/v3/kv/put', place ?? {})
    },
    question: (bytes) => bytes.includes('/v3/watch'),
    answer: (bytes) => /"type":\s*"DELETE"/.test(bytes.toString()),
  },
  {
    name: 'consul',
    direct: (t) => onConsul.driverOf(t, consul.url),
    cabled: (t) => onConsul.cabled(t, consul),
    keys: async (name) => (await onConsul.placesOf(consul, name)).map(({ Key }) => Key),
    remove: (key) => consul.ask('DELETE', `/v1/kv/${key}`),
    replace: async (name, key) => {
      const place = (await onConsul.placesOf(consul, name)).find(({ Key }) => Key === key)
      const { Value = '', Session } = place as { Value?: string; Session?: string }
      await consul.ask('DELETE', `/v1/kv/${key}`)
      await consul.ask('PUT', `/v1/kv/${key}?acquire=${Session}`, Buffer.from(Value, 'base64').toString())
    },
    question: (bytes) => /GET \/v1\/kv\/\S*wait=/.test(bytes.toString()),
    answer: (bytes) => bytes.includes('404 Not Found'),
  },
]

/** Without the rule of this file, nothing ends the wait. */
const limit = { timeout: 60_000 }

for (const { name, direct, cabled, keys, remove, replace, question, answer } of stores) {
  const ask = async (driver: Driver, lock: string, more: { readonly ttl?: number } = {}) => {
    const there = (await keys(lock)).length
    const grant = driver.acquire(claim(lock, { ttl, ...more }), waiting())
    await until(async () => (await keys(lock)).length === there + 1)
    return { grant, key: (await keys(lock))[there] ?? '' }
  }

  test(
    `${name}: the entry ahead is removed and entered again before the watch of it begins`,
    limit,
    async (t) => {
      const lock = 'late-watch'
      const [holder, other] = [direct(t), direct(t)]
      const { driver, cable } = await cabled(t)
      await (await driver.acquire(claim('warm', { ttl }), once()))?.release()
      const first = await holder.acquire(claim(lock, { ttl }), once())
      const again = await ask(other, lock)
      cable.up.hold(question)
      const behind = await ask(driver, lock)
      await cable.up.holding()
      await remove(again.key)
      await first?.release()
      await until(async () => (await keys(lock)).join() === [behind.key, again.key].join())
      cable.up.pass()
      assert.equal(await (await behind.grant)?.release(), 'released')
      assert.equal(await (await again.grant)?.release(), 'released')
    },
  )

  test(
    `${name}: the entry ahead is removed and entered again, and the watch of it hangs`,
    limit,
    async (t) => {
      const lock = 'hung-watch'
      const [holder, other] = [direct(t), direct(t)]
      const { driver, cable } = await cabled(t)
      const first = await holder.acquire(claim(lock, { ttl }), once())
      const again = await ask(other, lock)
      cable.up.hold(question)
      // Its own heartbeat comes soon, and finds out.
      const behind = await ask(driver, lock, { ttl: 1_500 })
      await cable.up.holding()
      cable.up.pass()
      cable.down.hold(answer)
      await remove(again.key)
      await first?.release()
      await until(async () => (await keys(lock)).join() === [behind.key, again.key].join())
      assert.equal(await (await behind.grant)?.release(), 'released')
      cable.down.pass()
      assert.equal(await (await again.grant)?.release(), 'released')
    },
  )

  test(
    `${name}: the entry ahead is removed and put again while a fourth waiter of the process watches nothing`,
    limit,
    async (t) => {
      const lock = 'asleep'
      const driver = direct(t)
      const first = await direct(t).acquire(claim(lock, { ttl }), once())
      const [a, b] = [await ask(driver, lock), await ask(driver, lock)]
      const c = await ask(driver, lock)
      const d = await ask(driver, lock)
      await replace(lock, c.key)
      assert.deepEqual((await keys(lock)).slice(1), [a.key, b.key, d.key, c.key])
      await first?.release()
      // Which of the last two comes first is not promised: only here does another put a claim's entry.
      const served = [a, b, c, d].map(async ({ grant }) => (await grant)?.release())
      assert.deepEqual(await Promise.all(served), Array(4).fill('released'))
    },
  )

  test(
    `${name}: a fourth waiter of the process, which watches nothing, notices that its entry was removed`,
    limit,
    async (t) => {
      const lock = 'removed'
      const driver = direct(t)
      const first = await direct(t).acquire(claim(lock, { ttl }), once())
      const all: { grant: Promise<Grant | undefined>; key: string }[] = []
      for (let n = 0; n < 5; n++) all.push(await ask(driver, lock, { ttl: 3_000 }))
      const [a, b, c, d, e] = all.map(({ key }) => key)
      await remove(d ?? '')
      await until(async () => (await keys(lock)).slice(1).join() === [a, b, c, e, d].join())
      await first?.release()
      const order = [0, 1, 2, 4, 3].map((n) => all[n])
      for (const one of order) assert.equal(await (await one?.grant)?.release(), 'released')
    },
  )
}

after(leakCheck)
