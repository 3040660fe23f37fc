// Servers lose their votes long after their start, and the next client does not reach the server that still has them.
// Second tier because servers must first be up for longer than a lease lasts, and each hold is waited out; redlock.test.ts is beside it.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { exclusive, type Mode, shared } from '../../src/core/mode.js'
import { cabled, meet, now, type Scene } from '../drivers/redlock/support/scene.js'
import { claim, waiting } from '../drivers/support/asking.js'
import { leakCheck } from '../support/leaks.js'
import { type RedisServer, startMany } from '../support/servers/redis.js'
import { until } from '../support/until.js'

const maxTtl = 3_000

interface Loss {
  readonly held?: Mode
  /** Whoever asks next has met all servers before. */
  readonly met?: true
  /** The third server is reached again while the others are left out. */
  readonly back?: true
  lose(first: RedisServer, second: RedisServer): Promise<unknown>
}

const bothFlushed = (first: RedisServer, second: RedisServer) =>
  Promise.all([first.cli('FLUSHALL'), second.cli('FLUSHALL')])

const losses: Readonly<Record<string, Loss>> = {
  'the data of both are deleted': { lose: bothFlushed },
  'the data of both are deleted under readers': { held: shared, lose: bothFlushed },
  'the data of both are deleted and the client had met them': { met: true, lose: bothFlushed },
  'the data of both are deleted and the third is reached later': { back: true, lose: bothFlushed },
  'the data of one are deleted': { lose: (first) => first.cli('FLUSHALL') },
  'the data of one database are deleted, and the counters with them': {
    lose: (first, second) =>
      Promise.all(
        [first, second].map(async (server) => {
          await server.cli('FLUSHDB')
          await server.cli('CONFIG', 'RESETSTAT')
        }),
      ),
  },
  'the data of both are deleted and one restarts': {
    lose: async (first, second) => {
      await bothFlushed(first, second)
      await first.restart({ keepData: false })
    },
  },
}

// All at once: each must get old by itself, because FLUSHALL is remembered.
const groups = await Promise.all(Array.from({ length: Object.keys(losses).length + 1 }, () => startMany(3)))
after(() => Promise.all(groups.map((group) => group.stop())))

const leftOut = /may have forgotten votes/

/** Servers of which the time of the start says nothing any more. */
async function aged(): Promise<Scene> {
  const { servers } = groups[used++] ?? assert.fail()
  for (const server of servers) {
    await until(
      async () => {
        const uptime = /uptime_in_seconds:(\d+)/.exec(String(await server.cli('INFO', 'server')))?.[1]
        return Number(uptime) * 1_000 > maxTtl + 2_000
      },
      { within: 20_000 },
    )
  }
  return { servers, ports: servers.map(({ port }) => port), prefix: 'hf:' }
}
let used = 0

for (const [what, { held: mode = exclusive, met, back, lose }] of Object.entries(losses)) {
  test(`H31: two of three hold the majority, ${what}: no second one while the first may still hold`, async (t) => {
    const here = await aged()
    const [a, b] = await cabled(t, here, 2, { maxTtl })
    assert.ok(a && b)
    await (met ? meet(here, a.driver, b.driver) : meet(here, a.driver))
    a.cable(2).blackHole()
    const held = await a.driver.acquire(claim('held', { mode, ttl: maxTtl }), waiting())
    assert.ok(held)
    await lose(here.servers[0] ?? assert.fail(), here.servers[1] ?? assert.fail())
    b.cable(2).blackHole()
    const wait = waiting()
    let granted = false
    const asked = b.driver.acquire(claim('held', { ttl: 1_000 }), wait).finally(() => {
      granted = true
    })
    if (back) {
      await until(() => granted || wait.told.some(({ error }) => leftOut.test(String(error))))
      b.cable(2).heal()
    }
    const next = await asked
    assert.ok(next)
    assert.ok(now() >= held.validUntil, `granted ${held.validUntil - now()} ms before the first lease ended`)
    assert.ok(next.token > held.token)
  })
}

test('servers that have deleted nothing are new: they vote at once, though the third is not reached', async (t) => {
  const here = await aged()
  const [a] = await cabled(t, here, 1, { maxTtl })
  assert.ok(a)
  a.cable(2).blackHole()
  const wait = waiting()
  const grant = await a.driver.acquire(claim('first', { ttl: maxTtl }), wait)
  assert.ok(grant)
  assert.ok(!wait.told.some(({ error }) => leftOut.test(String(error))))
})

after(leakCheck)
