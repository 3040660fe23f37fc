// A client of one server is pointed at a node of a Cluster: every lock is refused at once, with the remedy.
// Second tier because Cluster is a topology of its own, and a change seldom concerns it alone.
import assert from 'node:assert/strict'
import { after, type TestContext, test } from 'node:test'
import { createLocks, type Locks } from '../../src/create-locks.js'
import { type RedisOptions, redis } from '../../src/drivers/redis/index.js'
import { type Version, versions } from '../drivers/redis/support/versions.js'
import { leakCheck } from '../support/leaks.js'
import type { RedisServer } from '../support/servers/redis.js'
import { startCluster } from '../support/servers/redis-cluster.js'

const cluster = await startCluster({ masters: 2 })
after(() => cluster.stop())

async function start(
  t: TestContext,
  version: Version,
  node: RedisServer,
  options: Partial<RedisOptions>,
): Promise<Locks> {
  const { client, start, close } = await version.open({ is: 'single', port: node.port })
  await start()
  const locks = createLocks(redis({ client, commandTimeout: 60_000, ...options }))
  t.after(() => locks.close().then(close))
  return locks
}

/** A name whose slot this node serves. */
async function nameAt(node: RedisServer): Promise<string> {
  for (let i = 0; ; i++)
    if ((await cluster.findOwner(await cluster.keySlot(`hf:{${i}}`))) === node) return `${i}`
}

const refused = {
  code: 'BACKEND',
  message: /\((MOVED|CROSSSLOT)\): this is a node of a Cluster, which needs a client of the Cluster/,
}
/** Far longer than the test may take: a test that waits it out fails. */
const wait = 600_000

for (const version of versions) {
  test(`a client of one server gets no lock from either node of a Cluster, and no wait goes on (${version.name})`, async (t) => {
    for (const node of cluster.masters) {
      const locks = await start(t, version, node, {})
      for (const name of await Promise.all(cluster.masters.map(nameAt))) {
        await assert.rejects(locks.mutex(name).tryAcquire(), refused)
        await assert.rejects(locks.mutex(name).acquire({ wait }), refused)
      }
    }
  })

  test(`without quarantine the locks of the other node are refused (${version.name})`, async (t) => {
    const [first, second] = cluster.masters as [RedisServer, RedisServer]
    const locks = await start(t, version, first, { quarantine: 'off' })
    const name = await nameAt(second)
    await assert.rejects(locks.mutex(name).acquire({ wait }), refused)
    await assert.rejects(locks.inspect(name), refused)
  })
}

after(leakCheck)
