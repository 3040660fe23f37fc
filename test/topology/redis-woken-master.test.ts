// A master that is frozen, is replaced by its Sentinels, and wakes up with requests in its buffers (H20).
// Second tier because Sentinels are a topology of their own, and a promotion takes a while.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { createLocks } from '../../src/create-locks.js'
import { type RedisOptions, redis } from '../../src/drivers/redis/index.js'
import { versions } from '../drivers/redis/support/versions.js'
import { leakCheck } from '../support/leaks.js'
import { startSentinel } from '../support/servers/redis-sentinel.js'
import { until } from '../support/until.js'

const ttl = 3_000

const all = versions.filter(({ places }) => places.includes('sentinel'))

// node-redis learns of the new master in time, and then asks that.
for (const version of all)
  for (const asks of version.library === 'redis'
    ? (['just before it wakes'] as const)
    : (['while it stands still', 'just before it wakes'] as const))
    test(`H20: a master that wakes after its replacement grants nothing to clients that asked ${asks} (${version.name})`, async (t) => {
      const setup = await startSentinel({ replicas: 1 })
      t.after(() => setup.stop())
      const place = {
        is: 'sentinel',
        name: setup.name,
        sentinels: setup.addresses,
        ports: setup.nodes.map(({ port }) => port),
      } as const
      const join = async (options: Partial<RedisOptions>) => {
        const { client, start, close } = await version.open(place)
        await start()
        const locks = createLocks(redis({ client, ...options }), { ttl })
        t.after(async () => {
          await locks.close()
          close()
        })
        return locks
      }
      const a = await join({ maxTtl: ttl })
      await a.mutex('used before').run(() => undefined)
      const old = setup.master()
      const named = async (sentinel: (typeof setup.sentinels)[number]) =>
        Number(((await sentinel.cli('SENTINEL', 'get-master-addr-by-name', setup.name)) as string[])[1])
      const wanted = () => a.mutex('x').acquire({ wait: 60_000 })
      await setup.synced()
      old.pause()
      const early = asks === 'while it stands still' ? wanted() : undefined
      early?.catch(() => undefined)
      const [next] = setup.nodes.filter((node) => node !== old)
      await until(async () => String(await next?.cli('ROLE').catch(String)).startsWith('master'), {
        within: 20_000,
      })
      await until(async () =>
        (await Promise.all(setup.sentinels.map(named))).every((port) => port === next?.port),
      )
      // Nothing was lost that it would have to wait for.
      const b = await join({ quarantine: 'off', maxTtl: 120_000 })
      // Held by its term alone: a process that is paused for a while does not lose it meanwhile.
      const first = await b.mutex('x').acquire({ ttl: 120_000, wait: 60_000 })
      const asked = early ?? wanted()
      let granted: number | undefined
      asked.then(
        (lease) => {
          granted = lease.token
        },
        () => undefined,
      )
      old.resume()
      // It takes itself for the master until the Sentinels tell it that it is a replica now.
      const role = async () => String(await old.cli('ROLE').catch(String))
      await until(async () => granted !== undefined || (await role()).startsWith('slave'), { within: 60_000 })
      assert.equal(granted, undefined, 'the woken master has let a second one in')
      assert.ok(first.isHeld)
      await first.release()
      const second = await asked
      assert.ok(second.token > first.token)
      await second.release()
    })

after(leakCheck)
