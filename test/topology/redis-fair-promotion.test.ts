// A fair queue on a master that is replaced: as planned, so that the new one has the queue, and with a loss, so that it has neither queue nor holders.
// Second tier because Sentinels are a topology of their own, and a promotion takes a while.
import assert from 'node:assert/strict'
import { after, type TestContext, test } from 'node:test'
import type { Lease } from '../../src/core/lease.js'
import { createLocks, type Locks } from '../../src/create-locks.js'
import { driverOn, type Library, open } from '../drivers/redis/support/clients.js'
import { leakCheck } from '../support/leaks.js'
import { type Promotion, type SentinelSetup, startSentinel } from '../support/servers/redis-sentinel.js'
import { until } from '../support/until.js'

const ttl = 10_000
/** For who must hold over a promotion: it may take seconds more where the machine is paused. The new master waits for that long, too. */
const longTtl = 30_000
const waiters = 6

function join(t: TestContext, setup: SentinelSetup, library: Library, maxTtl: number): Locks {
  const ports = setup.nodes.map(({ port }) => port)
  const place = { is: 'sentinel', name: setup.name, sentinels: setup.addresses, ports } as const
  const locks = createLocks(driverOn(open(library, place), { maxTtl }), { ttl })
  t.after(() => locks.close())
  return locks
}

const ways: Readonly<Record<string, Promotion>> = {
  agreed: { sync: true, how: 'command' },
  lossy: { sync: false, how: 'kill' },
}

for (const library of ['ioredis', 'node-redis'] as const)
  for (const [way, promotion] of Object.entries(ways))
    test(`H18: everybody in a fair queue is served once across a promotion (${way}, ${library})`, async (t) => {
      const setup = await startSentinel()
      t.after(() => setup.stop())
      const longest = promotion.sync ? longTtl : ttl
      const [a, ...others] = Array.from({ length: 4 }, () => join(t, setup, library, longest))
      assert.ok(a)
      for (const locks of [a, ...others]) await locks.mutex('used before').run(() => undefined)
      if (!promotion.sync) await setup.cutReplication()
      const first = await a.mutex('x').acquire({ ttl: longest })
      const holders: Lease[] = [first]
      const served: number[] = []
      const tokens: number[] = []
      const turns: Promise<void>[] = []
      // Two of each process, each behind the one before.
      for (let i = 0; i < waiters; i++) {
        const turn = async () => {
          const lease = await others[i % others.length]!.mutex('x').acquire({ fair: true, wait: 120_000 })
          assert.ok(!holders.some(({ isHeld }) => isHeld), `${i} came while another held`)
          holders.push(lease)
          served.push(i)
          tokens.push(lease.token)
          await others[i % others.length]!.mutex('something else').run(() => undefined)
          assert.equal(await lease.release(), 'released')
        }
        const began = turn()
        began.catch(() => undefined)
        turns.push(began)
        await until(async () => (await a.inspect('x')).waiters.length === i + 1)
      }
      const next = await setup.promote(promotion)
      if (promotion.sync) {
        // The new master knows who holds and who waits.
        await until(() => first.extend().catch(({ code }) => code !== 'BACKEND' && code !== 'UNAVAILABLE'))
        assert.ok(first.isHeld)
        assert.deepEqual(served, [])
        // Who cannot be told yet when the lock becomes free is passed over, and keeps its place: not here.
        const heard = async () => (await next.cli('PUBSUB', 'CHANNELS', 'hf:c:*')) as readonly unknown[]
        await until(async () => (await heard()).length === others.length)
        assert.equal(await first.release(), 'released')
      } else {
        await until(() => served.length > 0 || !first.isHeld)
      }
      await Promise.all(turns)
      assert.deepEqual(
        [...served].sort(),
        Array.from({ length: waiters }, (_, i) => i),
      )
      assert.deepEqual(
        tokens,
        [...tokens].sort((x, y) => x - y),
      )
      assert.ok((tokens[0] ?? 0) > first.token)
      if (promotion.sync)
        assert.deepEqual(
          served,
          Array.from({ length: waiters }, (_, i) => i),
          'not in order',
        )
      const { holders: left, waiters: standing } = await a.inspect('x')
      assert.deepEqual([left, standing], [[], []])
    })

after(leakCheck)
