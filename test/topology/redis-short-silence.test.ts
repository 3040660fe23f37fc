// A master that was frozen and replaced meanwhile, and a client that has hardly noticed: it was idle, and did not wait for long. While that
// master takes itself for one, what it grants must not count.
// Second tier because Sentinels are a topology of their own, and a promotion takes a while.
import assert from 'node:assert/strict'
import { after, type TestContext, test } from 'node:test'
import type { Lease } from '../../src/core/lease.js'
import { createLocks, type Locks } from '../../src/create-locks.js'
import type { RedisOptions } from '../../src/drivers/redis/index.js'
import { driverOn, open } from '../drivers/redis/support/clients.js'
import { leakCheck } from '../support/leaks.js'
import { type SentinelSetup, startSentinel } from '../support/servers/redis-sentinel.js'
import { until } from '../support/until.js'

const ttl = 3_000

async function sentinels(t: TestContext, downAfter: number): Promise<SentinelSetup> {
  const setup = await startSentinel({ downAfter })
  t.after(() => setup.stop())
  return setup
}

function join(t: TestContext, setup: SentinelSetup, options: Partial<RedisOptions> = {}): Locks {
  const ports = setup.nodes.map(({ port }) => port)
  const place = { is: 'sentinel', name: setup.name, sentinels: setup.addresses, ports } as const
  const locks = createLocks(driverOn(open('ioredis', place), options), { ttl })
  t.after(() => locks.close())
  return locks
}

/** The master is paused until another has its place, and there somebody has the lock. */
async function replaced(t: TestContext, setup: SentinelSetup) {
  const old = setup.master()
  await setup.promote({ sync: true, how: 'freeze' })
  // Nothing was lost that it would have to wait for.
  const first = await join(t, setup, { quarantine: 'off' }).mutex('x').acquire({ ttl: 60_000, wait: 60_000 })
  return { old, first }
}

/** Nobody gets the lock from a master that was replaced, for as long as it takes itself for one. */
async function isNotGranted(setup: SentinelSetup, asked: Promise<Lease>, before = () => {}) {
  const [old] = setup.nodes
  const told: number[] = []
  asked.then(
    ({ token }) => told.push(token),
    () => undefined,
  )
  before()
  const role = async () => String(await old?.cli('ROLE').catch(String))
  await until(async () => told.length > 0 || (await role()).startsWith('slave'), { within: 30_000 })
  assert.deepEqual(told, [], 'the master that was replaced has let a second one in')
}

test('H20: a silence shorter than commandTimeout counts if it was long enough for a promotion', async (t) => {
  // The silence begins before the request and ends after it. Each part is short.
  const setup = await sentinels(t, 4_000)
  const a = join(t, setup, { maxTtl: ttl, commandTimeout: 8_000 })
  await a.mutex('used before').run(() => undefined)
  const { old, first } = await replaced(t, setup)
  const asked = a.mutex('x').acquire({ wait: 60_000 })
  await isNotGranted(setup, asked, () => old.resume())
  assert.ok(first.isHeld)
  await first.release()
  const second = await asked
  assert.ok(second.token > first.token)
  await second.release()
})

test('H20: a master that was silent for long is not trusted just because it has answered something else since', async (t) => {
  const setup = await sentinels(t, 1_000)
  const a = join(t, setup, { maxTtl: ttl })
  await a.mutex('used before').run(() => undefined)
  const { old, first } = await replaced(t, setup)
  old.resume()
  assert.equal(await a.forceRelease('used before'), 0)
  const asked = a.mutex('x').acquire({ wait: 60_000 })
  await isNotGranted(setup, asked)
  assert.ok(first.isHeld)
  await first.release()
  const second = await asked
  assert.ok(second.token > first.token)
  await second.release()
})

after(leakCheck)
