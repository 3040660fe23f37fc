// Every version of ioredis and node-redis that package.json admits, oldest to newest, standalone, over Sentinels and in a Cluster:
// one short contract each, and the options of a client that change what it answers.
// Second tier because it repeats for other versions of the clients what the others show.
import assert from 'node:assert/strict'
import { fork } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { after, test } from 'node:test'
import { handsOver, joined } from '../drivers/redis/support/contract.js'
import type { Place } from '../drivers/redis/support/place.js'
import type { Task } from '../drivers/redis/support/version-child.js'
import { type Version, versions } from '../drivers/redis/support/versions.js'
import { leakCheck } from '../support/leaks.js'
import { startRedis } from '../support/servers/redis.js'
import { startCluster } from '../support/servers/redis-cluster.js'
import type { RedisServer } from '../support/servers/redis-node.js'
import { startSentinel } from '../support/servers/redis-sentinel.js'
import { until } from '../support/until.js'

const [single, sentinel, cluster] = await Promise.all([startRedis(), startSentinel(), startCluster()])
after(() => Promise.all([single.stop(), sentinel.stop(), cluster.stop()]))
const places: Readonly<Record<Place['is'], Place>> = {
  single: { is: 'single', port: single.port },
  sentinel: {
    is: 'sentinel',
    name: sentinel.name,
    sentinels: sentinel.addresses,
    ports: sentinel.nodes.map(({ port }) => port),
  },
  cluster: { is: 'cluster', ports: cluster.nodes.map(({ port }) => port) },
}
const all = { single: [single], sentinel: sentinel.nodes, cluster: cluster.nodes } as const
const unhandled: unknown[] = []
const note = (reason: unknown) => void unhandled.push(reason)
process.on('unhandledRejection', note)
process.on('uncaughtException', note)
after(() => {
  process.off('unhandledRejection', note)
  process.off('uncaughtException', note)
  assert.deepEqual(unhandled, [])
})

/** The data server that has the lock. */
async function serverOf(place: Place, key: string): Promise<RedisServer> {
  if (place.is === 'single') return single
  return place.is === 'sentinel' ? sentinel.master() : cluster.findOwner(await cluster.keySlot(key))
}

/** The connections of a server, except the one that asks. */
async function connected(server: RedisServer): Promise<number> {
  const list = String(await server.cli('CLIENT', 'LIST'))
  return list.split('\n').filter((line) => /lib-|addr=/.test(line) && !/flags=[MS]|name=sentinel/.test(line))
    .length
}

async function killedHolder(version: Version, place: Place, name: string): Promise<void> {
  const task: Task = { version: version.name, place, name, ttl: 1_500 }
  const child = fork(new URL('../drivers/redis/support/version-child.js', import.meta.url), [
    JSON.stringify(task),
  ])
  await new Promise((resolve, reject) => {
    child.once('message', resolve)
    child.once('exit', () => reject(new Error('the child ended')))
  })
  const gone = new Promise((resolve) => child.once('exit', resolve))
  child.kill('SIGKILL')
  await gone
}

for (const version of versions) {
  for (const is of version.places) {
    const place = places[is]

    test(`${version.name}, ${is}: taken, handed over by push, lost, crashed, closed`, async (t) => {
      const name = `${version.name} ${is}`
      const server = await serverOf(place, `hf:{${name}}`)
      const clientsBefore = await connected(server)
      const [a, b] = [await joined(t, version, place), await joined(t, version, place)]
      const lease = await a.locks.mutex(name).acquire()
      assert.equal(await b.locks.mutex(name).tryAcquire(), undefined)
      assert.ok((await lease.extend()) > 0)
      assert.equal(await lease.release(), 'released')
      await handsOver(a, b, name, server)
      for (const one of all[is]) await one.cli('CLIENT', 'KILL', 'TYPE', 'pubsub')
      await handsOver(a, b, name, server)

      const taken = await a.locks.mutex(name).acquire()
      assert.equal(await b.locks.forceRelease(name), 1)
      await taken.extend().catch(() => undefined)
      assert.equal(taken.isHeld, false)

      await killedHolder(version, place, name)
      const after = await b.locks.mutex(name).acquire({ wait: 10_000 })
      assert.equal(await after.release(), 'released')

      await Promise.all([a.close(), b.close()])
      await until(async () => (await connected(server)) <= clientsBefore)
    })
  }
}

test('the package asks for these versions and no others, and the docs name them', () => {
  const read = (file: string) => readFileSync(new URL(`../../../${file}`, import.meta.url), 'utf8')
  const { peerDependencies, devDependencies } = JSON.parse(read('package.json'))
  const docs = read('docs/drivers/redis.md')
  for (const library of ['ioredis', 'redis'] as const) {
    const tested = versions.filter((one) => one.library === library).map(({ version }) => version)
    const [oldest, newest] = [tested[0], tested.at(-1)]
    assert.equal(peerDependencies[library], `>=${oldest} <${Number.parseInt(newest ?? '', 10) + 1}`)
    assert.equal(devDependencies[library], `^${newest}`)
    assert.match(docs, new RegExp(`\\b${library} ${tested.join(', ').replaceAll('.', '\\.')}\\b`))
  }
})

after(leakCheck)
