// A replica that lacks the newest grants is promoted, and Redis has forgotten that by the time the first client comes.
// Second tier because Redis forgets a promotion only after seconds, and the servers must have been up for longer than a ttl.
import assert from 'node:assert/strict'
import { after, type TestContext, test } from 'node:test'
import { peer } from '../drivers/redis/support/peer.js'
import { leakCheck } from '../support/leaks.js'
import { startProxy } from '../support/proxy.js'
import { type Persistence, type RedisServer, startRedis } from '../support/servers/redis.js'
import { until } from '../support/until.js'

const ttl = 12_000

test('H18: a replica promoted so long ago that it no longer reports it grants nothing until the grants it lacks have expired', (t) =>
  promotion(t, 'a process that knew the old master', 'none'))

test('H18: nor to a newcomer, if both servers sync every write, and the old master had no replica when it was met', (t) =>
  promotion(t, 'a newcomer', 'aof-always'))

async function promotion(t: TestContext, who: string, persistence: Persistence): Promise<void> {
  const one = await startRedis({ persistence })
  // Redis forgets that a server was promoted when it has had no replica for so many seconds.
  const two = await startRedis({ persistence, args: ['--repl-backlog-ttl', '1'] })
  const target = { port: one.port }
  const address = await startProxy(target)
  t.after(async () => {
    await Promise.all([one.stop(), two.stop()])
    await address.stop()
  })
  const own = { maxTtl: ttl, ttl }
  const known = peer(t, address.port, own)
  await known.locks.mutex('used before').run(() => undefined)
  await two.cli('REPLICAOF', one.host, String(one.port))
  await until(async () => (await two.cli('EXISTS', 'hf:{used before}')) === 1)
  // From here on, the time of its start says nothing.
  await until(async () => Number(await field(two, 'uptime_in_seconds')) * 1_000 > ttl + 2_000, {
    within: 60_000,
  })

  two.pause()
  await one.cli('CLIENT', 'KILL', 'TYPE', 'replica')
  const holder = peer(t, one.port, own)
  const first = await holder.locks.mutex('x').acquire()
  await one.kill9()
  const ends = performance.now() + first.remaining()
  two.resume()
  await two.cli('REPLICAOF', 'NO', 'ONE')
  await until(async () => /^0+$/.test(await field(two, 'master_replid2')), { within: 10_000 })
  target.port = two.port
  address.reset()

  const asks = who === 'a newcomer' ? peer(t, two.port, own) : known
  await until(() => asks.client.status === 'ready')
  // Granted at the first attempt, then only because the time is over already.
  const early = await asks.locks.mutex('x').tryAcquire()
  const second = early ?? (await asks.locks.mutex('x').acquire({ wait: 60_000 }))
  assert.ok(performance.now() > ends, 'granted while the first holder could still believe in it')
  assert.ok(second.token > first.token)
  await second.release()
}

async function field(server: RedisServer, name: string): Promise<string> {
  const info = String(await server.cli('INFO'))
  return new RegExp(`\\n${name}:([^\\r\\n]*)`).exec(info)?.[1] ?? ''
}

after(leakCheck)
