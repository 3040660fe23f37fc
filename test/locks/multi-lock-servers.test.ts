// Locks of two servers and of this machine as one lease, when one of the servers does not reply.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { createLocks } from 'holdfast'
import { local } from 'holdfast/local'
import { redis } from 'holdfast/redis'
import { Redis } from 'ioredis'
import { leakCheck } from '../support/leaks.js'
import { startRedis } from '../support/servers/redis.js'
import { until } from '../support/until.js'

const directory = mkdtempSync(join(tmpdir(), 'holdfast-servers-'))
const servers = [await startRedis(), await startRedis()] as const
const clients: Redis[] = []
const on = (at: 0 | 1) => {
  const client = new Redis(servers[at].url)
  clients.push(client)
  return createLocks(redis({ client }))
}
const here = [on(0), on(1), createLocks(local({ directory }))] as const
const there = [on(0), on(1), createLocks(local({ directory }))] as const
const partsOf = ([one, two, three]: typeof here) => [two.mutex('b'), three.mutex('c'), one.mutex('a')]

test('they exclude others on every server, and are released on every one', async () => {
  const lease = await here[0].all(partsOf(here)).acquire()
  assert.equal(await there[0].all(partsOf(there)).tryAcquire(), undefined)
  for (const [i, name] of ['a', 'b', 'c'].entries())
    assert.equal(await there[i]!.mutex(name).tryAcquire(), undefined, name)
  assert.equal(await lease.release(), 'released')
  const next = await there[0].all(partsOf(there)).acquire()
  for (const [i, part] of next.leases.entries()) assert.ok(part.token > lease.leases[i]!.token)
  await next.release()
})

test('when one server gives no answer nothing is kept, on it neither once it answers again', async () => {
  servers[1].pause()
  await assert.rejects(here[0].all(partsOf(here)).acquire({ wait: 10_000 }), {
    code: 'UNAVAILABLE',
    message: /about "b"/,
  })
  for (const [i, name] of [
    [0, 'a'],
    [2, 'c'],
  ] as const) {
    const lease = await there[i].mutex(name).tryAcquire()
    assert.ok(lease !== undefined, `${name} is still taken`)
    await lease.release()
  }
  servers[1].resume()
  await until(async () => (await there[1].inspect('b')).holders.length === 0)
  await (await there[0].all(partsOf(there)).acquire()).release()
})

after(async () => {
  for (const locks of [...here, ...there]) await locks.close()
  for (const client of clients) client.disconnect()
  for (const server of servers) await server.stop()
  rmSync(directory, { recursive: true, force: true })
})
after(leakCheck)
