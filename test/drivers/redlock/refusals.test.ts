// Servers that refuse until somebody acts: waiting for their votes is pointless.
import assert from 'node:assert/strict'
import { after, type TestContext, test } from 'node:test'
import { createLocks, type Locks } from 'holdfast'
import { redlock } from 'holdfast/redlock'
import { Redis } from 'ioredis'
import { leakCheck } from '../../support/leaks.js'
import { startMany } from '../../support/servers/redis.js'
import type { RedisServer } from '../../support/servers/redis-node.js'
import { meet } from './support/scene.js'

const { servers, stop } = await startMany(3)
after(stop)

/** Far longer than the test may take: a test that waits it out fails. */
const wait = 600_000
/** No answer is late, and no lease ends, because the machine is slow. */
const patient = { commandTimeout: 60_000, maxTtl: 600_000 }
const minority = servers.slice(0, 1)
const majority = servers.slice(0, 2)

const cli = (of: readonly RedisServer[], ...words: string[]) =>
  Promise.all(of.map((server) => server.cli(...words)))
const allow = (of: readonly RedisServer[], ...denied: string[]) =>
  cli(of, ...['ACL', 'SETUSER', 'app', 'reset', 'on', '>right', '~hf:*', '&hf:*', '+@all', ...denied])
const memory = (of: readonly RedisServer[], limit: string) => cli(of, 'CONFIG', 'SET', 'maxmemory', limit)

await allow(servers)
await meet({ servers, ports: servers.map(({ port }) => port), prefix: 'hf:' })

function start(t: TestContext, password: (place: number) => string = () => 'right'): Locks {
  const clients = servers.map(({ port }, place) => {
    const client = new Redis({ port, username: 'app', password: password(place) })
    client.on('error', () => undefined)
    return client
  })
  const locks = createLocks(redlock({ clients, ...patient }), { ttl: 600_000 }) as unknown as Locks
  t.after(async () => {
    await allow(servers)
    await memory(servers, '0')
    await locks.close()
    for (const client of clients) client.disconnect()
  })
  return locks
}

const causes: readonly (readonly [what: string, code: string, refuse: (of: typeof servers) => unknown])[] = [
  ['whose memory is full', 'OOM', (of) => memory(of, '1')],
  ['that do not let the account vote', 'NOPERM', (of) => allow(of, '-time')],
  ['that do not let the account run scripts', 'NOPERM', (of) => allow(of, '-evalsha')],
]

for (const [what, code, refuse] of causes) {
  // All answer in time, also the one whose answer no longer mattered.
  const refusal = {
    code: 'BACKEND',
    message: new RegExp(`fewer than 2 of 3 (?!.*no answer in time).*refused \\(${code}\\)`),
  }

  test(`a majority ${what} ends a wait at once, of a process that has met them before, waits already, or is new`, async (t) => {
    const [locks, others] = [start(t), start(t)]
    const held = await others.mutex(code).acquire()
    const waited = new Promise((resolve) => locks.on('waiting', resolve))
    const waiting = assert.rejects(locks.mutex(code).acquire({ wait }), refusal)
    await waited
    await refuse(majority)
    await waiting
    await assert.rejects(locks.mutex('free').acquire({ wait }), refusal)
    await assert.rejects(start(t).mutex('free').acquire({ wait }), refusal)
    await allow(servers)
    await memory(servers, '0')
    assert.equal(await held.release(), 'released')
    await (await locks.mutex('free').acquire({ wait })).release()
  })

  test(`a minority ${what} ends no wait`, async (t) => {
    const [locks, others] = [start(t), start(t)]
    const held = await others.mutex(code).acquire()
    await refuse(minority)
    const waited = new Promise((resolve) => locks.on('waiting', resolve))
    const waiting = locks.mutex(code).acquire({ wait })
    await waited
    await held.release()
    assert.equal(await (await waiting).release(), 'released')
    await (await start(t).mutex('free').acquire({ wait })).release()
  })
}

test('a majority that refuses the password ends a wait at once, a minority does not', async (t) => {
  const refused = start(t, (place) => (place === 2 ? 'right' : 'wrong'))
  const refusal = { code: 'BACKEND', message: /fewer than 2 of 3 .*(NOAUTH|WRONGPASS)/ }
  await assert.rejects(refused.mutex('free').acquire({ wait }), refusal)
  const served = start(t, (place) => (place === 2 ? 'wrong' : 'right'))
  await (await served.mutex('free').acquire({ wait })).release()
})

test('a refusal before a wait does not end the wait: the cause may be gone', async (t) => {
  await allow(majority, '-smembers')
  const locks = start(t)
  const refusal = { code: 'BACKEND', message: /refused \(NOPERM\)/ }
  await assert.rejects(locks.mutex('free').tryAcquire(), refusal)
  await assert.rejects(locks.mutex('free').acquire({ wait }), refusal)
  await allow(majority)
  await (await locks.mutex('free').acquire({ wait })).release()
})

after(leakCheck)
