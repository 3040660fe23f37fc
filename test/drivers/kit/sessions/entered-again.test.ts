// A claim whose entry was removed enters the queue again, with the same key, at the end. Those that waited for its first entry wait no longer:
// otherwise it would wait for them, and they for it.
import assert from 'node:assert/strict'
import { after, type TestContext, test } from 'node:test'
import type { Driver } from '../../../../src/core/driver.js'
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
    question: (bytes) => bytes.includes('/v3/watch'),
    answer: (bytes) => /"type":\s*"DELETE"/.test(bytes.toString()),
  },
  {
    name: 'consul',
    direct: (t) => onConsul.driverOf(t, consul.url),
    cabled: (t) => onConsul.cabled(t, consul),
    keys: async (name) => (await onConsul.placesOf(consul, name)).map(({ Key }) => Key),
    remove: (key) => consul.ask('DELETE', `/v1/kv/${key}`),
    question: (bytes) => /GET \/v1\/kv\/\S*wait=/.test(bytes.toString()),
    answer: (bytes) => bytes.includes('404 Not Found'),
  },
]

/** Without the rule of this file, nothing ends the wait. */
const limit = { timeout: 60_000 }

for (const { name, direct, cabled, keys, remove, question, answer } of stores) {
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
}

after(leakCheck)
