// The commands that locks cost, counted by the server.
import assert from 'node:assert/strict'
import { after, type TestContext, test } from 'node:test'
import { scriptHash } from '../../../src/drivers/redis/pipeline.js'
import { acquire } from '../../../src/drivers/redis/scripts/acquire.js'
import { release } from '../../../src/drivers/redis/scripts/verbs.js'
import { leakCheck } from '../../support/leaks.js'
import { startRedis } from '../../support/servers/redis.js'
import { until } from '../../support/until.js'
import { commands, peer } from './support/peer.js'

const server = await startRedis()
after(() => server.stop())

test('an uncontended acquire and release are two commands', async (t) => {
  const { locks, client } = peer(t, server.port)
  const lock = locks.mutex('two')
  await lock.run(() => undefined)
  await commands(client)
  for (let i = 0; i < 50; i++) await lock.run(() => undefined)
  assert.deepEqual(await commands(client), { evalsha: 100 })
})

test('64 locks taken in one tick are two commands, and so are their releases', async (t) => {
  const { locks, client } = peer(t, server.port)
  const all = Array.from({ length: 64 }, (_, i) => locks.mutex(`one tick ${i}`))
  await Promise.all(all.map((lock) => lock.run(() => undefined)))
  await commands(client)
  const leases = await Promise.all(all.map((lock) => lock.acquire()))
  assert.deepEqual(await commands(client), { evalsha: 2 })
  await Promise.all(leases.map((lease) => lease.release()))
  assert.deepEqual(await commands(client), { evalsha: 2 })
})

for (const n of [2, 16, 64]) {
  test(`a queue entry and a hand-over between ${n} processes are three commands`, async (t) => {
    const peers = Array.from({ length: n }, () => peer(t, server.port))
    const name = `hand-over ${n}`
    const [first] = peers
    assert.ok(first)
    // Scripts and subscriptions are there once everybody has waited.
    await until(
      async () => {
        for (const all of [peers, [...peers].reverse()]) {
          await Promise.all(all.map(({ locks }) => locks.mutex(name).run(() => undefined)))
        }
        return ((await first.client.pubsub('CHANNELS', 'hf:c:*')) as unknown[]).length === n
      },
      { within: 60_000 },
    )
    const rounds = Math.ceil(200 / n)
    const round = async () => {
      await commands(first.client)
      let taken = 0
      await Promise.all(
        peers.map(async ({ locks }) => {
          for (let i = 0; i < rounds; i++) {
            const lease = await locks.mutex(name).acquire()
            taken++
            await lease.release()
          }
        }),
      )
      const { evalsha = 0, ...others } = await commands(first.client)
      assert.deepEqual(others, {})
      return evalsha / taken
    }
    const each = await round()
    assert.ok(each <= 3.1, `${each} commands for each acquisition`)
  })
}

test('a thousand requests in one process cost the server next to nothing', async (t) => {
  const { locks, client } = peer(t, server.port)
  const lock = locks.mutex('local')
  // The first one to be passed on opens the subscriber; from then on it is known that nobody else waits.
  await Promise.all(Array.from({ length: 40 }, () => lock.run(() => undefined)))
  await until(async () => ((await client.pubsub('CHANNELS', 'hf:c:*')) as unknown[]).length === 1)
  await commands(client)
  const tokens: number[] = []
  await Promise.all(Array.from({ length: 1000 }, () => lock.run((lease) => void tokens.push(lease.token))))
  assert.deepEqual(
    tokens,
    [...tokens].sort((a, b) => a - b),
  )
  assert.equal(new Set(tokens).size, 1000)
  const { evalsha = 0 } = await commands(client)
  assert.ok(evalsha <= 4, `${evalsha} commands`)
})

test('renewals of a thousand leases are a handful of commands', async (t) => {
  standingStill(t)
  // A request that is sent again would be counted twice.
  const { locks, client } = peer(t, server.port, { commandTimeout: 60_000 })
  // Renewed after a third of it on a common beat, unless a proof is older than half of it when it comes.
  const ttl = 30_000
  const leases = await Promise.all(
    Array.from({ length: 1000 }, (_, i) => locks.mutex(`renewed ${i}`).acquire({ ttl, wait: 120_000 })),
  )
  await commands(client)
  let renewed = 0
  locks.on('renewed', () => renewed++)
  await until(() => renewed >= 1000, { within: 60_000 })
  const { evalsha = 0 } = await commands(client)
  // 500 go into one command, and those of different beats into different ones.
  assert.ok(evalsha <= 30, `${evalsha} commands for ${renewed} renewals`)
  assert.ok(leases.every((lease) => lease.isHeld))
  await Promise.all(leases.map((lease) => lease.release()))
})

/**
 * The clock stands still until the event loop turns. After 5 ms of renewing, the loop turns before the next renewal, which then goes into
 * another command; on a busy machine these pass with next to nothing done.
 */
function standingStill(t: TestContext): void {
  const now = performance.now.bind(performance)
  let reading: number | undefined
  t.mock.method(performance, 'now', () => {
    if (reading === undefined) {
      reading = now()
      setImmediate(() => {
        reading = undefined
      })
    }
    return reading
  })
}

test('ten thousand waiters on one lock make no script slow', async (t) => {
  const { client } = peer(t, server.port)
  await client.subscribe('hf:c:crowd')
  const keys = ['hf:{crowd}', 'hf:{crowd}:q', 'hf:{crowd}:d']
  const head = ['', 'hf:c:crowd host:1', '65536', '600000', '0']
  const ask = (attempt: string) => [attempt, 'x', '600000000', '1 1 1 600000000 0', '']
  await client.script('LOAD', acquire.text)
  await client.script('LOAD', release.text)
  for (let i = 0; i < 10_000; i += 50) {
    const items = Array.from({ length: 50 }, (_, j) => ask(`waiter${i + j}`)).flat()
    const all = Array.from({ length: 50 }, () => keys).flat()
    await client.evalsha(scriptHash(acquire), all.length, ...all, ...head, ...items)
  }
  assert.equal(await client.zcard('hf:{crowd}:q'), 9_999)
  const slowest = { acquire: 0, release: 0 }
  const best = async (script: typeof acquire, item: (i: number) => string[]) => {
    // The machine interrupts the server now and then; what a script needs shows in the quickest of a few runs.
    const times: number[] = []
    for (let i = 0; i < 20; i++) {
      await client.config('RESETSTAT')
      await client.evalsha(scriptHash(script), 3, ...keys, ...head, ...item(i))
      const [, usec] = /cmdstat_evalsha:calls=1,usec=(\d+)/.exec(await client.info('commandstats')) ?? []
      times.push(Number(usec))
    }
    return Math.min(...times)
  }
  slowest.release = await best(release, (i) => [`waiter${i}`, '0'])
  slowest.acquire = await best(acquire, (i) => ask(`late${i}`))
  assert.ok(slowest.release < 1000, `a release needs ${slowest.release} µs`)
  assert.ok(slowest.acquire < 1000, `an acquire needs ${slowest.acquire} µs`)
  await client.unlink(...keys)
})

after(leakCheck)
