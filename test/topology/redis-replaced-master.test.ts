// A client of Sentinels leaves a master that was replaced, although nothing closes its connection.
// Second tier because Sentinels are a topology of their own, and a promotion takes a while.
import assert from 'node:assert/strict'
import { after, type TestContext, test } from 'node:test'
import { createLocks } from '../../src/create-locks.js'
import { type RedisOptions, redis } from '../../src/drivers/redis/index.js'
import { type Version, versions } from '../drivers/redis/support/versions.js'
import { leakCheck } from '../support/leaks.js'
import { startSentinel } from '../support/servers/redis-sentinel.js'
import { until } from '../support/until.js'

async function setUp(t: TestContext, version: Version, options: Partial<RedisOptions> = {}) {
  const setup = await startSentinel()
  t.after(() => setup.stop())
  const ports = setup.nodes.map(({ port }) => port)
  const place = { is: 'sentinel', name: setup.name, sentinels: setup.addresses, ports } as const
  const { client, start, close } = await version.open(place)
  await start()
  const locks = createLocks(redis({ client, maxTtl: 3_000, ...options }), { ttl: 3_000 })
  t.after(async () => {
    await locks.close()
    close()
  })
  await locks.mutex('used before').run(() => undefined)
  return { setup, client, locks, old: setup.master() }
}

const role = async (server: { cli(...command: string[]): Promise<unknown> }) =>
  String(await server.cli('ROLE').catch(String)).split(',')[0]

for (const version of versions.filter(({ places }) => places.includes('sentinel'))) {
  test(`a replaced master that no Sentinel demotes is left (${version.name})`, async (t) => {
    const { setup, locks, old } = await setUp(t, version)
    await setup.promote({ sync: true, how: 'freeze' })
    // Sentinels that were paused for more than two seconds demote nobody for half a minute (TILT). Here it does not end.
    for (const sentinel of setup.sentinels) {
      await sentinel.cli('SENTINEL', 'DEBUG', 'TILT-PERIOD', '600000')
      sentinel.pause()
    }
    const stopped = performance.now()
    await until(() => performance.now() > stopped + 2_500)
    for (const sentinel of setup.sentinels) sentinel.resume()
    const tilted = async (sentinel: (typeof setup.sentinels)[number]) =>
      /sentinel_tilt:1/.test(String(await sentinel.cli('INFO', 'sentinel')))
    await until(async () => (await Promise.all(setup.sentinels.map(tilted))).every(Boolean))
    old.resume()
    const lease = await locks.mutex('x').acquire({ wait: 60_000 })
    assert.equal(await role(old), 'master', 'granted only once the old master had been demoted')
    assert.equal(await role(setup.master()), 'master')
    await lease.release()
  })

  test(`a replaced master that never wakes is left (${version.name})`, async (t) => {
    const { setup, locks } = await setUp(t, version)
    await setup.promote({ sync: true, how: 'freeze' })
    const lease = await locks.mutex('x').acquire({ wait: 60_000 })
    await lease.release()
  })

  if (version.library === 'ioredis') {
    test(`a master that refuses costs no connection of its own: only a silent one may have been replaced (${version.name})`, async (t) => {
      const { client, locks, old } = await setUp(t, version, { eviction: 'refuse' })
      const given = client as { duplicate(...options: unknown[]): unknown }
      const duplicate = given.duplicate.bind(given)
      let opened = 0
      given.duplicate = (...options) => {
        opened += 1
        return duplicate(...options)
      }
      await old.cli('CONFIG', 'SET', 'maxmemory', '100mb')
      await old.cli('CONFIG', 'SET', 'maxmemory-policy', 'allkeys-lru')
      await old.cli('CLIENT', 'KILL', 'TYPE', 'normal')
      const refused = () =>
        locks
          .mutex('x')
          .tryAcquire()
          .then(
            () => false,
            (error: Error) => error.message.includes('maxmemory-policy'),
          )
      await until(refused)
      assert.equal(opened, 0)
    })
  }
}

after(leakCheck)
