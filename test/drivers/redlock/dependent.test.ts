// Servers that are not independent of each other: replicas, which lose the votes they gave, and nodes of a Cluster.
import assert from 'node:assert/strict'
import { after, type TestContext, test } from 'node:test'
import { createLocks, type Locks } from 'holdfast'
import { redlock } from 'holdfast/redlock'
import { Redis } from 'ioredis'
import { leakCheck } from '../../support/leaks.js'
import { startProxy, type TcpProxy } from '../../support/proxy.js'
import { startMany, startRedis } from '../../support/servers/redis.js'
import type { RedisServer } from '../../support/servers/redis-node.js'
import { until } from '../../support/until.js'

const { servers, stop } = await startMany(3)
after(stop)
const [first, second] = servers as [RedisServer, RedisServer]

function start(
  t: TestContext,
  of: readonly { readonly port: number }[],
  prefix: string,
  commandTimeout = 60_000,
): Locks {
  const clients = of.map(({ port }) => {
    const client = new Redis(port)
    client.on('error', () => undefined)
    return client
  })
  const driver = redlock({ clients, prefix, commandTimeout, maxTtl: 600_000 })
  const locks = createLocks(driver, { ttl: 600_000 }) as unknown as Locks
  t.after(async () => {
    await locks.close()
    for (const client of clients) client.disconnect()
  })
  return locks
}

async function replicaOf(t: TestContext, master: RedisServer, readOnly: 'yes' | 'no'): Promise<RedisServer> {
  const args = ['--replicaof', `127.0.0.1 ${master.port}`, '--replica-read-only', readOnly]
  const replica = await startRedis({ args, isNew: false })
  t.after(() => replica.stop())
  await until(async () => /master_link_status:up/.test(String(await replica.cli('INFO', 'replication'))))
  return replica
}

for (const readOnly of ['yes', 'no'] as const)
  test(`a replica has no vote, and the error says so (replica-read-only ${readOnly})`, async (t) => {
    const prefix = `${readOnly}:`
    await (await start(t, servers, prefix).mutex('x').acquire()).release()
    const locks = start(t, [first, second, await replicaOf(t, first, readOnly)], prefix)
    const lease = await locks.mutex('x').acquire()
    t.after(() => second.cli('CONFIG', 'SET', 'maxmemory', '0'))
    await second.cli('CONFIG', 'SET', 'maxmemory', '1')
    // With its vote there would still be a majority.
    const refused = new RegExp(`server 3: it is a replica of 127\\.0\\.0\\.1:${first.port}`)
    await assert.rejects(locks.mutex('y').tryAcquire(), refused)
    await second.cli('CONFIG', 'SET', 'maxmemory', '0')
    assert.equal(await lease.release(), 'released')
  })

test('a node of a Cluster is refused at the first use, also where the other servers are enough', async (t) => {
  const node = await startRedis({ args: ['--cluster-enabled', 'yes'], isNew: false })
  t.after(() => node.stop())
  const refused = {
    code: 'BACKEND',
    message: /server 4 is a node of a Cluster; give redlock independent servers/,
  }
  const locks = start(t, [...servers, node], 'cluster:')
  await assert.rejects(locks.mutex('x').tryAcquire(), refused)
  await assert.rejects(locks.mutex('x').acquire({ wait: 600_000 }), refused)
})

test('a server given twice has one vote, also while one of its clients is silent', async (t) => {
  await start(t, servers, 'twice:')
    .mutex('x')
    .run(() => undefined)
  const proxies = await Promise.all([first, first, second].map(({ port }) => startProxy({ port })))
  t.after(() => Promise.all(proxies.map((proxy) => proxy.stop())))
  const [one, again, other] = proxies as [TcpProxy, TcpProxy, TcpProxy]
  again.up.hold()
  const locks = start(t, proxies, 'twice:', 3_000)
  await locks.mutex('x').run(() => undefined)
  one.up.hold()
  other.blackHole()
  other.cut()
  again.up.pass()
  const refused = { code: 'BACKEND', message: /server 1 and server 2 are the same server/ }
  await assert.rejects(locks.mutex('x').acquire({ wait: 60_000 }), refused)
  one.up.pass()
  await assert.rejects(locks.mutex('x').acquire({ wait: 60_000 }), refused)
})

after(leakCheck)
