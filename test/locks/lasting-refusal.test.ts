// A store that refuses for good, seen from every primitive: each rejects at its first refusal, as `acquire` does, and none
// goes on asking until its time is over.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { Redis } from 'ioredis'
import { createLocks, type Locks } from '../../src/create-locks.js'
import { redis } from '../../src/drivers/redis/index.js'
import { leakCheck } from '../support/leaks.js'
import { startRedis } from '../support/servers/redis.js'
import { until } from '../support/until.js'

const server = await startRedis()
await server.cli('ACL', 'SETUSER', 'app', 'on', '>right', '~*', '&*', '+@all')
const client = new Redis(server.port, server.host, { username: 'app', password: 'right' })
const locks: Locks = createLocks(redis({ client }))

after(async () => {
  await locks.close()
  client.disconnect()
  await server.stop()
})
after(leakCheck)

/** How many commands the server has refused with this code. */
async function refusals(code: string): Promise<number> {
  const stats = String(await server.cli('INFO', 'errorstats'))
  return Number(new RegExp(`errorstat_${code}:count=(\\d+)`).exec(stats)?.[1] ?? 0)
}

const wait = Number.POSITIVE_INFINITY
const verbs: Readonly<Record<string, (locks: Locks) => Promise<unknown>>> = {
  'mutex().acquire()': ({ mutex }) => mutex('a').acquire({ wait }),
  'once()': ({ once }) => once('a', () => 1, { wait }),
  'election().campaign()': ({ election }) => election('a').campaign('me', { wait }),
  'election().leader()': ({ election }) => election('a').leader(),
  'election().observe()': ({ election }) => election('a').observe()[Symbol.asyncIterator]().next(),
  'latch().setCount()': ({ latch }) => latch('a').setCount(1),
  'latch().countDown()': ({ latch }) => latch('a').countDown(),
  'latch().count()': ({ latch }) => latch('a').count(),
  'latch().join()': ({ latch }) => latch('a').join({ wait }),
  'latch().wait()': ({ latch }) => latch('a').wait({ wait }),
  'latch().delete()': ({ latch }) => latch('a').delete(),
  'barrier().enter()': ({ barrier }) => barrier('a', 2).enter({ wait }),
  'pool().acquire()': ({ pool }) => pool('a', { permits: 1 }).acquire({ wait }),
  'pool().resize()': ({ pool }) => pool('a', { permits: 1 }).resize(2),
  'pool().holders()': ({ pool }) => pool('a', { permits: 1 }).holders(),
  'pool().close()': ({ pool }) => pool('a', { permits: 1 }).close({ wait }),
  'job().run()': ({ job }) => job('a').run(() => 1),
  'revoke()': ({ revoke }) => revoke('a'),
}
for (const [verb, ask] of Object.entries(verbs)) {
  test(`${verb} rejects with the store's lasting refusal, and asks no more`, {
    timeout: 60_000,
  }, async () => {
    await server.cli('ACL', 'SETUSER', 'app', '-evalsha', '-eval')
    const before = await refusals('NOPERM')
    await assert.rejects(ask(locks), {
      code: 'BACKEND',
      message: /refused \(NOPERM\): the ACL user may not run/,
    })
    // EVALSHA, what EVAL sends again, and what removes a request that may be in a queue.
    const sent = (await refusals('NOPERM')) - before
    assert.ok(sent > 0 && sent <= 4, `${sent} commands were refused`)
    await server.cli('ACL', 'SETUSER', 'app', '+@all')
  })
}

const kept: Readonly<Record<string, readonly [cell: string, ask: (locks: Locks) => Promise<unknown>]>> = {
  'election().campaign()': ['leader:b', ({ election }) => election('b').campaign('me', { wait })],
  'job().run()': ['job:b', ({ job }) => job('b', { minHold: 1_000 }).run(() => assert.fail('it ran'))],
  'latch().join()': ['latch:b', ({ latch }) => latch('b').join({ wait })],
  'barrier().enter()': ['barrier:b', ({ barrier }) => barrier('b', 2).enter({ wait })],
  'pool().acquire()': ['pool:b', ({ pool }) => pool('b', { permits: 1 }).acquire({ wait })],
}
for (const [verb, [cell, ask]] of Object.entries(kept)) {
  test(`${verb} that is refused what is kept beside its lock rejects at once, and holds nothing`, {
    timeout: 60_000,
  }, async () => {
    const key = `hf:{${cell}}:c`
    await server.cli('SET', key, 'of another program')
    const before = await refusals('WRONGTYPE')
    await assert.rejects(ask(locks), { code: 'BACKEND', message: /refused \(WRONGTYPE\)/ })
    const sent = (await refusals('WRONGTYPE')) - before
    assert.ok(sent > 0 && sent <= 4, `${sent} commands were refused`)
    assert.deepEqual((await locks.inspect('b')).holders, [])
    await server.cli('DEL', key)
  })
}

test('a holder that listens for requests to give way goes on listening once the store allows it', {
  timeout: 60_000,
}, async () => {
  const key = 'hf:{revoke:c}:c'
  await server.cli('SET', key, 'of another program')
  const lease = await locks.mutex('c').acquire()
  const before = await refusals('WRONGTYPE')
  locks.onRevoke(lease, () => void lease.release())
  await until(async () => (await refusals('WRONGTYPE')) > before)
  await server.cli('DEL', key)
  assert.equal(await locks.revoke('c', { grace: 30_000 }), 'released')
})
