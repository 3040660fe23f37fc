// A master that is replaced, made a replica, and made the master again before it has received anything from its replacement.
// Second tier because Sentinels are a topology of their own, and a promotion takes a while.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { peer } from '../drivers/redis/support/peer.js'
import { leakCheck } from '../support/leaks.js'
import { startProxy } from '../support/proxy.js'
import { startRedis } from '../support/servers/redis.js'
import { until } from '../support/until.js'

const ttl = 4_000

for (const who of ['one that knows it from before', 'one that has never met it'] as const)
  test(`H18: a master that is made the master again, without the grants of its replacement, grants nothing before those have expired: asked by ${who}`, async (t) => {
    const [one, two] = [await startRedis(), await startRedis()]
    const toTwo = await startProxy({ port: two.port })
    t.after(async () => {
      await Promise.all([one.stop(), two.stop()])
      await toTwo.stop()
    })
    const own = { maxTtl: ttl, ttl }
    const known = peer(t, one.port, own)
    await known.locks.mutex('used before').run(() => undefined)
    await two.cli('REPLICAOF', one.host, one.port)
    await until(async () => (await two.cli('EXISTS', 'hf:{used before}')) === 1)

    // As Sentinels do it. The old master is to follow the new one, and hears nothing of it.
    await two.cli('REPLICAOF', 'NO', 'ONE')
    toTwo.blackHole()
    await one.cli('REPLICAOF', toTwo.host, toTwo.port)
    await one.cli('CLIENT', 'KILL', 'TYPE', 'normal')
    const holder = peer(t, two.port, own)
    const first = await holder.locks.mutex('x').acquire({ wait: 60_000 })
    await two.kill9()
    const ends = performance.now() + first.remaining()
    await one.cli('REPLICAOF', 'NO', 'ONE')
    await one.cli('CLIENT', 'KILL', 'TYPE', 'normal')

    const asks = who === 'one that has never met it' ? peer(t, one.port, own) : known
    await until(() => asks.client.status === 'ready')
    // Granted at the first attempt, then only because the time is over already.
    const early = await asks.locks.mutex('x').tryAcquire()
    const second = early ?? (await asks.locks.mutex('x').acquire({ wait: 60_000 }))
    assert.ok(performance.now() > ends, 'granted while the first holder could still believe in it')
    assert.equal(first.isHeld, false)
    assert.ok(second.token > first.token)
    await second.release()
  })

after(leakCheck)
