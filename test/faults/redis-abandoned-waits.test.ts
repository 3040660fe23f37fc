// Waits that were given up, and whose queue entries are still in the store: the order to remove them did not arrive, or a promotion undid it. Their process
// lives and is subscribed, so that each looks as if it could take its turn.
// Second tier because a waiter counts as alive for twelve seconds after its last request.
import assert from 'node:assert/strict'
import { after, type TestContext, test } from 'node:test'
import { Redis } from 'ioredis'
import { type Peer, pause, peer, reachable } from '../drivers/redis/support/peer.js'
import { leakCheck } from '../support/leaks.js'
import { startProxy } from '../support/proxy.js'
import { startRedis } from '../support/servers/redis.js'
import { until } from '../support/until.js'

const many = 20

/** @returns a function that gives up `many` fair waits of `process` for `x`, and resolves when all have ended */
function waits({ locks }: Peer): () => Promise<void> {
  const gone = new AbortController()
  const all = Array.from({ length: many }, () =>
    locks.mutex('x').acquire({ fair: true, wait: Number.POSITIVE_INFINITY, signal: gone.signal }),
  )
  const ended = Promise.all(all.map((one) => assert.rejects(one, { name: 'AbortError' })))
  return async () => {
    gone.abort()
    await ended
  }
}

function subscriberOf(t: TestContext, port: number): Redis {
  const subscriber = new Redis(port, '127.0.0.1', { retryStrategy: () => 50 })
  subscriber.on('error', () => undefined)
  t.after(() => subscriber.disconnect())
  return subscriber
}

test('waits that are given up during an outage are removed from the queue once it is over, also when it lasts longer than a ttl', async (t) => {
  const server = await startRedis()
  const cable = await startProxy({ port: server.port })
  t.after(async () => {
    await server.stop()
    await cable.stop()
  })
  const own = { ttl: 500, commandTimeout: 200 }
  const held = await peer(t, server.port).locks.mutex('x').acquire()
  const process = peer(t, cable.port, { ...own, subscriber: subscriberOf(t, server.port) })
  const giveUp = waits(process)
  await reachable(server, 'x', many)
  cable.blackHole()
  await giveUp()
  await pause(2_000)
  cable.reset()
  cable.heal()
  await until(async () => (await server.cli('ZCARD', 'hf:{x}:q')) === 0)
  await held.release()
})

test('waits that were given up before a promotion that lost their removal cost the next waiter no more than the time for which a waiter counts as alive', async (t) => {
  const ttl = 3_000
  const [one, two] = [await startRedis(), await startRedis()]
  const target = { port: one.port }
  const address = await startProxy(target)
  t.after(async () => {
    await Promise.all([one.stop(), two.stop()])
    await address.stop()
  })
  const own = { ttl, maxTtl: ttl, quarantine: 'off' } as const
  await peer(t, one.port, own).locks.mutex('x').acquire()
  const process = peer(t, address.port, { ...own, subscriber: subscriberOf(t, address.port) })
  const giveUp = waits(process)
  await reachable(one, 'x', many)
  await two.cli('REPLICAOF', one.host, String(one.port))
  await until(async () => (await two.cli('ZCARD', 'hf:{x}:q')) === many)
  two.pause()
  await one.cli('CLIENT', 'KILL', 'TYPE', 'replica')
  await giveUp()
  await until(async () => (await one.cli('ZCARD', 'hf:{x}:q')) === 0)
  await one.kill9()
  two.resume()
  await two.cli('REPLICAOF', 'NO', 'ONE')
  target.port = two.port
  address.reset()
  await until(async () => ((await two.cli('PUBSUB', 'CHANNELS')) as string[]).length > 0)

  const began = performance.now()
  const next = await peer(t, two.port, own).locks.mutex('x').acquire({ wait: Number.POSITIVE_INFINITY })
  const took = performance.now() - began
  assert.ok(took < (many / 2) * ttl, `${many} abandoned waits cost ${Math.round(took)} ms`)
  await next.release()
})

after(leakCheck)
