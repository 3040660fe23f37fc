// A silent node of a Cluster that does not serve the lock, but through which a process is notified of its grants.
// Second tier because Cluster is a topology of its own, and a change seldom concerns it alone.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type { Clock } from '../../src/core/clock.js'
import { createLocks } from '../../src/create-locks.js'
import { redis } from '../../src/drivers/redis/index.js'
import type { Place } from '../drivers/redis/support/place.js'
import { versions } from '../drivers/redis/support/versions.js'
import { leakCheck } from '../support/leaks.js'
import { startCluster } from '../support/servers/redis-cluster.js'
import type { RedisServer } from '../support/servers/redis-node.js'
import { until } from '../support/until.js'

// The others do not take it for down while it is silent.
const cluster = await startCluster({ nodeTimeout: 60_000 })
after(() => cluster.stop())
const place: Place = { is: 'cluster', ports: cluster.nodes.map(({ port }) => port) }

const isListenedTo = async (node: RedisServer) =>
  ((await node.cli('PUBSUB', 'CHANNELS', 'hf:*')) as readonly unknown[]).length > 0

async function nodeOfName(prefix: string, wanted: (node: RedisServer) => boolean): Promise<string> {
  for (let i = 0; ; i++) {
    const name = `${prefix} ${i}`
    if (wanted(await cluster.findOwner(await cluster.keySlot(`hf:{${name}}`)))) return name
  }
}

/** From `stop()` on nothing rings that is set for later than in 1.5 s: a waiter does not look by itself any more. */
function lookingUntilStopped() {
  let looks = true
  const over = (clock: Clock): Clock => ({
    ...clock,
    at: (time, fn, options) =>
      !looks && time - clock.now() > 1_500 ? () => undefined : clock.at(time, fn, options),
  })
  const stop = () => {
    looks = false
  }
  return { over, stop }
}

for (const version of versions) {
  test(`a process subscribed at a node that falls silent is notified of its grants again (${version.name})`, async (t) => {
    const [one, two] = [await version.open(place), await version.open(place)]
    const holder = createLocks(redis({ client: one.client, subscriber: false, quarantine: 'off' }))
    const looking = lookingUntilStopped()
    const driver = redis({ client: two.client, quarantine: 'off' })
    const waiter = createLocks((env) => driver({ ...env, clock: looking.over(env.clock) }))
    t.after(async () => {
      await Promise.all([holder.close(), waiter.close()])
      one.close()
      two.close()
    })
    await Promise.all([one.start(), two.start()])

    const first = await holder.mutex(version.name).acquire()
    const next = waiter.mutex(version.name).acquire()
    let silent: RedisServer | undefined
    await until(async () => {
      for (const node of cluster.nodes) if (await isListenedTo(node)) silent = node
      return silent !== undefined
    })
    await first.release()
    await (await next).release()
    const name = await nodeOfName(version.name, (node) => node !== silent)
    silent?.pause()
    t.after(() => silent?.resume())
    const others = cluster.nodes.filter((node) => node !== silent)
    await until(async () => (await Promise.all(others.map(isListenedTo))).includes(true), { within: 20_000 })

    // By polling it would be 2 s at best: the lock is kept for a waiter that may have been told.
    looking.stop()
    const lease = await holder.mutex(name).acquire()
    const asked = waiter.mutex(name).acquire({ wait: 60_000 })
    await until(async () => (await holder.inspect(name)).waiters.length === 1)
    assert.equal(await lease.release(), 'released')
    await (await asked).release()
  })
}

after(leakCheck)
