// Unexpected replies to scripts, from one server of three or from all: that server has not voted, and the others are not affected.
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { after, test } from 'node:test'
import { Redis } from 'ioredis'
import { createLocks } from '../../src/create-locks.js'
import { renewMany } from '../../src/drivers/redlock/fast-paths.js'
import { redlock } from '../../src/drivers/redlock/index.js'
import { release, renew, vote } from '../../src/drivers/redlock/scripts.js'
import { leakCheck } from '../support/leaks.js'
import { startRewriting } from '../support/rewriting-proxy.js'
import { startMany } from '../support/servers/redis.js'

const three = await startMany(3)
after(() => three.stop())

const shas = new Set(
  [vote, renew, renewMany, release].map(({ text }) => createHash('sha1').update(text).digest('hex')),
)
const replies = [
  '$-1',
  ':7',
  '+OK',
  '*0',
  '*1\r\n$1\r\ny',
  '*4\r\n+y\r\n+x\r\n:1\r\n+x',
  '*3\r\n+h\r\n+NaN\r\n:1',
]

test('a server whose replies are garbled has no vote and spoils no ballot; where all are, it is an error that shows one', async (t) => {
  const ports = three.servers.map(({ port }) => port)
  const between = await Promise.all(ports.map((port) => startRewriting(port)))
  const locksOn = (ports: readonly number[]) => {
    const clients = ports.map((port) => new Redis(port, { protocol: 2, disconnectTimeout: 100 }))
    for (const client of clients) client.on('error', () => undefined)
    const locks = createLocks(redlock({ clients, commandTimeout: 20_000 }))
    t.after(async () => {
      await locks.close()
      for (const client of clients) client.disconnect()
    })
    return locks
  }
  const [locks, direct] = [locksOn(between.map(({ port }) => port)), locksOn(ports)]
  t.after(() => Promise.all(between.map((one) => one.stop())))
  const lock = locks.mutex('a')
  let { token: last } = await lock.run(async (lease) => lease, { wait: 60_000 })
  for (const reply of replies) {
    const garble = ([, script]: readonly string[]) => (shas.has(script ?? '') ? reply : undefined)
    between[0]?.rewrite(garble)
    const lease = await lock.acquire({ wait: 60_000, ttl: 30_000 })
    assert.ok(
      Number.isSafeInteger(lease.token) && lease.token > last,
      `${reply}: ${lease.token} after ${last}`,
    )
    assert.ok((await lease.extend()) > 0)
    assert.equal(await direct.mutex('a').tryAcquire(), undefined)
    last = lease.token
    assert.equal(await lease.release(), 'released')
    for (const one of between) one.rewrite(garble)
    await assert.rejects(
      lock.tryAcquire({ ttl: 30_000 }),
      { code: 'BACKEND', message: /the reply to EVALSHA.* is garbled/ },
      reply,
    )
    for (const one of between) one.rewrite(() => undefined)
    const next = await direct.mutex('a').acquire({ wait: 60_000 })
    assert.ok(Number.isSafeInteger(next.token) && next.token > last, `${reply}: ${next.token} after ${last}`)
    last = next.token
    await next.release()
  }
})

after(leakCheck)
