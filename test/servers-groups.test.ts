// Groups of Redis servers: Sentinels and Clusters as the tests use them.
// Second tier because the servers of the tests seldom change.
import assert from 'node:assert/strict'
import { after, describe, it } from 'node:test'
import { leakCheck } from './support/leaks.js'
import type { Reply } from './support/resp.js'
import type { RedisServer } from './support/servers/redis.js'
import { startCluster } from './support/servers/redis-cluster.js'
import { startSentinel } from './support/servers/redis-sentinel.js'

describe('Sentinel', { concurrency: false }, () => {
  it('fails over without loss when the replica was in sync, and with loss when it was cut off', async () => {
    await using setup = await startSentinel()
    const first = setup.master()
    await first.cli('SET', 'a', 'kept')
    const second = await setup.promote({ sync: true })
    assert.notEqual(second, first)
    assert.equal(await second.cli('GET', 'a'), 'kept')
    await first.restart()
    await setup.cutReplication()
    await second.cli('SET', 'a', 'lost')
    const third = await setup.promote({ sync: false, how: 'freeze' })
    assert.equal(third, first)
    assert.equal(await third.cli('GET', 'a'), 'kept')
    second.resume()
    await setup.synced() // the frozen master was told that it is none any more, and follows
    assert.equal(((await second.cli('ROLE')) as Reply[])[0], 'slave')
    assert.equal(await second.cli('GET', 'a'), 'kept')
    assert.equal(await setup.promote({ sync: true, how: 'command' }), second)
  })
})

describe('Redis Cluster', { concurrency: false }, () => {
  it('answers MOVED, and ASK and TRYAGAIN while a slot moves', async () => {
    await using cluster = await startCluster({ replicas: 1 })
    const slot = await cluster.keySlot('{tag}a')
    const from = await cluster.findOwner(slot)
    const to = cluster.masters.find((node) => node !== from) as RedisServer
    await from.cli('MSET', '{tag}a', 1, '{tag}b', 2)
    await assert.rejects(to.cli('GET', '{tag}a'), { message: `MOVED ${slot} 127.0.0.1:${from.port}` })

    const migration = await cluster.beginMigration(slot, to)
    await migration.moveKeys('{tag}a')
    await assert.rejects(from.cli('GET', '{tag}a'), { message: `ASK ${slot} 127.0.0.1:${to.port}` })
    await assert.rejects(from.cli('MGET', '{tag}a', '{tag}b'), /^RespError: TRYAGAIN/)
    assert.equal(await from.cli('GET', '{tag}b'), '2')
    await migration.finish()
    assert.equal(await cluster.findOwner(slot), to)
    assert.deepEqual(await to.cli('MGET', '{tag}a', '{tag}b'), ['1', '2'])
    await assert.rejects(from.cli('GET', '{tag}a'), { message: `MOVED ${slot} 127.0.0.1:${to.port}` })
    await cluster.migrateSlot(slot, from)
    assert.equal(await from.cli('GET', '{tag}b'), '2')

    const [replica] = cluster.replicas as [RedisServer]
    await cluster.failOver(replica)
    const ranges = (await replica.cli('CLUSTER', 'SLOTS')) as Reply[][]
    assert.ok(ranges.some((range) => (range[2] as Reply[])[1] === replica.port))
  })
})

after(leakCheck)
