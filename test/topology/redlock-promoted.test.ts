// A server of Redlock has a replica, which is promoted behind the same address and lacks the newest votes.
// Second tier because a promotion takes a while.
import assert from 'node:assert/strict'
import { after, type TestContext, test } from 'node:test'
import { cabled, driverOf, meet, now } from '../drivers/redlock/support/scene.js'
import { claim, waiting } from '../drivers/support/asking.js'
import { leakCheck } from '../support/leaks.js'
import { startProxy } from '../support/proxy.js'
import { type RedisServer, startMany, startRedis } from '../support/servers/redis.js'
import { until } from '../support/until.js'

const groups: { stop(): Promise<void> }[] = []
after(() => Promise.all(groups.map((one) => one.stop())))

test(
  'H31: a promoted replica that lacks a vote finds no second majority while the first may still hold',
  promotion(3_000),
)

test(
  'H31: nor does one that was promoted so long ago that it no longer reports it',
  promotion(8_000, '--repl-backlog-ttl', '1'),
)

function promotion(maxTtl: number, ...args: readonly string[]) {
  return async (t: TestContext): Promise<void> => {
    const started = await startMany(3)
    groups.push(started)
    const [first, second, third] = started.servers
    assert.ok(first && second && third)
    const replica = await startRedis({ args: ['--replicaof', second.host, String(second.port), ...args] })
    groups.push(replica)
    const target = { host: second.host, port: second.port }
    const address = await startProxy(target)
    groups.push(address)
    const here = {
      servers: [first, second, third],
      ports: [first.port, address.port, third.port],
      prefix: 'hf:',
    }
    const [a] = await cabled(t, here, 1, { maxTtl })
    assert.ok(a)
    await meet(here, a.driver)
    const tells = async (server: RedisServer, what: RegExp) =>
      Number(what.exec(String(await server.cli('INFO')))?.[1] ?? -1)
    // It has been up for longer than any lease lasts: the time of its start says nothing.
    await until(async () => (await tells(replica, /uptime_in_seconds:(\d+)/)) * 1_000 > maxTtl + 2_000)
    const has = () => tells(replica, /slave_repl_offset:(\d+)/)
    await until(async () => (await has()) === (await tells(second, /master_repl_offset:(\d+)/)))
    // From here on the replica gets nothing, and the third server is not reached by the holder.
    replica.pause()
    await second.cli('CLIENT', 'KILL', 'TYPE', 'replica')
    a.cable(2).blackHole()
    const held = await a.driver.acquire(claim('promoted', { ttl: maxTtl }), waiting())
    assert.ok(held)
    await second.kill9()
    replica.resume()
    await replica.cli('REPLICAOF', 'NO', 'ONE')
    if (args.length > 0)
      await until(async () => /master_replid2:0+\r/.test(String(await replica.cli('INFO'))), {
        within: 10_000,
      })
    target.port = replica.port
    address.reset()
    const b = driverOf(t, here, { maxTtl })
    const next = await b.acquire(claim('promoted', { ttl: 1_000 }), waiting())
    assert.ok(next)
    assert.ok(now() >= held.validUntil, `granted ${held.validUntil - now()} ms before the first lease ended`)
    assert.ok(next.token > held.token)
    await next.release()
  }
}

after(leakCheck)
