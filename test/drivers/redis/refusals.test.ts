// Every kind of refusal, on a real server: never "acquired", never "lost"; waited out if temporary, reported with a
// remedy where it stays.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { after, type TestContext, test } from 'node:test'
import type { Redis } from 'ioredis'
import { leakCheck } from '../../support/leaks.js'
import { type RedisServer, startRedis } from '../../support/servers/redis.js'
import { until } from '../../support/until.js'
import { type PeerOptions, peer, reachable, withoutLooking } from './support/peer.js'

const server = await startRedis()
after(() => server.stop())

/** A server of its own, for what would be in the way of other tests. */
async function own(t: TestContext, ...args: string[]): Promise<RedisServer> {
  const started = await startRedis({ args })
  t.after(() => started.stop())
  return started
}

/** Holds a lock, lets `refuse` happen, and sees that the lease lives on and a waiter gets through once it is over. */
async function outlives(
  t: TestContext,
  port: number,
  refuse: (admin: Redis) => Promise<unknown>,
  relent: (admin: Redis) => Promise<unknown>,
  options: PeerOptions = {},
): Promise<void> {
  const [holder, other, admin] = [peer(t, port, options), peer(t, port, options), peer(t, port)]
  const lease = await holder.locks.mutex('kept').acquire()
  await refuse(admin.client)
  const waiting = other.locks.mutex('new').acquire({ wait: 60_000 })
  const error = await other.locks
    .mutex('tried')
    .tryAcquire()
    .catch((caught) => caught)
  assert.equal(error?.code, 'BACKEND', `a try gave ${error}`)
  await assert.rejects(lease.extend(), { code: 'BACKEND' })
  assert.equal(lease.state, 'held')
  await relent(admin.client)
  const got = await waiting
  assert.ok(got.isHeld)
  await lease.extend()
  assert.equal(await lease.release(), 'released')
  assert.equal(await got.release(), 'released')
}

test('NOSCRIPT: a server that has forgotten the scripts gets them again, at any time', async (t) => {
  const { locks, client } = peer(t, server.port)
  const lock = locks.mutex('noscript')
  let flushed = 0
  await Promise.all([
    ...Array.from({ length: 20 }, async (_, i) => {
      for (let j = 0; j < 20; j++) await locks.mutex(`noscript ${i}`).run(() => undefined)
    }),
    (async () => {
      for (; flushed < 20; flushed++) await client.script('FLUSH')
    })(),
  ])
  await client.script('FLUSH')
  const lease = await lock.acquire()
  await client.script('FLUSH')
  await lease.extend()
  await client.script('FLUSH')
  await locks.inspect('noscript')
  await client.script('FLUSH')
  assert.equal(await lease.release(), 'released')
})

test('BUSY: another program’s script blocks the server for a while', async (t) => {
  const slow = await own(t, '--busy-reply-threshold', '50')
  const script = await slow.client()
  t.after(() => script.close())
  let running: Promise<unknown>
  await outlives(
    t,
    slow.port,
    async (admin) => {
      await admin.ping()
      running = script.send('EVAL', 'while true do end', 0).catch(() => undefined)
      await until(async () => (await admin.ping().catch(String)).includes('BUSY'))
    },
    async (admin) => {
      await admin.script('KILL')
      await running
    },
  )
})

test('NOREPLICAS: the server requires a replica that it does not have', async (t) => {
  const lonely = await own(t)
  await outlives(
    t,
    lonely.port,
    (admin) => admin.config('SET', 'min-replicas-to-write', '1'),
    (admin) => admin.config('SET', 'min-replicas-to-write', '0'),
  )
})

// Its replacement may have granted something that it has never got: see promoted-again.test.ts. Here that would only be waited out.
const promoted: PeerOptions = { quarantine: 'off' }

test('READONLY: the server has become a replica, and later is a master again', async (t) => {
  const demoted = await own(t)
  await outlives(
    t,
    demoted.port,
    (admin) => admin.replicaof('127.0.0.1', '1'),
    (admin) => admin.replicaof('NO', 'ONE'),
    promoted,
  )
})

test('MASTERDOWN: a replica without its master answers nothing', async (t) => {
  const orphan = await own(t, '--replica-serve-stale-data', 'no')
  await outlives(
    t,
    orphan.port,
    (admin) => admin.replicaof('127.0.0.1', '1'),
    (admin) => admin.replicaof('NO', 'ONE'),
    promoted,
  )
})

test('LOADING: a server that reads its data back is waited for', async (t) => {
  const loading = await startRedis({ persistence: 'aof-everysec', args: ['--key-load-delay', '300'] })
  t.after(() => loading.stop())
  const { client, close } = peer(t, loading.port)
  // It looks at its clients after every thousand keys only.
  const filled = Array.from({ length: 20_000 }, (_, i) => client.set(`key ${i}`, 'x'))
  await Promise.all(filled)
  await close()
  const restarted = loading.restart()
  // Its own ready check would hide the answer.
  const impatient = peer(t, loading.port, {
    ioredis: { enableReadyCheck: false },
    quarantine: 'off',
    eviction: 'ignore',
  })
  await until(
    async () => {
      const answer = await impatient.client.get('x').catch((error) => error.message as string)
      return String(answer).startsWith('LOADING')
    },
    { every: 2 },
  )
  const error = await impatient.locks
    .mutex('loading')
    .tryAcquire()
    .catch((caught) => caught)
  assert.equal(error?.code, 'BACKEND')
  assert.match(error.message, /loading/)
  const lease = await impatient.locks.mutex('loading').acquire()
  assert.ok(lease.isHeld)
  await lease.release()
  await restarted
})

test('OOM: a full server refuses a new lock with the remedy, but releases and renews the old ones', async (t) => {
  const full = await own(t, '--maxmemory-policy', 'noeviction')
  const { locks, client } = peer(t, full.port)
  const lease = await locks.mutex('held').acquire()
  const other = peer(t, full.port, { env: { clock: withoutLooking() } })
  const waiting = other.locks.mutex('held').acquire()
  await reachable(full, 'held', 1)
  // Less than it takes empty: filled up to the brim, it would have room again as soon as a client goes.
  await client.config('SET', 'maxmemory', '1')
  await assert.rejects(locks.mutex('new').acquire(), (error: Error & { code: string }) => {
    assert.equal(error.code, 'BACKEND')
    assert.match(error.message, /maxmemory/)
    return true
  })
  await lease.extend()
  assert.equal(await lease.release(), 'released')
  // It is handed over. Should the push be late, as on a busy machine, the waiter asks once more, and that is refused.
  const handed = await waiting.then(
    (next) => next.release(),
    (error: Error) => error.message,
  )
  assert.match(handed, /^released$|maxmemory/)
})

test('WRONGTYPE: a key of another program is reported by name, and other locks are not affected', async (t) => {
  const { locks, client } = peer(t, server.port)
  await client.set('hf:{taken}', 'by an old lock')
  const [bad, good] = await Promise.allSettled([
    locks.mutex('taken').acquire(),
    locks.mutex('not taken').acquire(),
  ])
  assert.equal(bad.status, 'rejected')
  assert.match(String(bad.reason), /WRONGTYPE.*another prefix/)
  assert.equal(good.status, 'fulfilled')
  await good.value.release()
  assert.equal(await client.get('hf:{taken}'), 'by an old lock')
  await client.del('hf:{taken}')
})

test('WRONGPASS: told as such, also where the first request leaves while the client logs in', async (t) => {
  const guarded = await own(t, '--requirepass', 'right')
  for (let round = 0; round < 20; round++) {
    const { client, locks, close } = peer(t, guarded.port, { ioredis: { password: 'wrong' } })
    await once(client, 'connect')
    const refused = { code: 'BACKEND', message: /refused \(WRONGPASS\)/ }
    await assert.rejects(locks.mutex('login').tryAcquire(), refused, `round ${round}`)
    await close()
  }
  const { client, locks } = peer(t, guarded.port)
  await once(client, 'connect')
  await assert.rejects(locks.mutex('login').tryAcquire(), { code: 'BACKEND', message: /refused \(NOAUTH\)/ })
})

test('NOPERM: the error for a user without the right to run scripts names the rights that are needed', async (t) => {
  const guarded = await own(t)
  await guarded.cli(
    'ACL',
    'SETUSER',
    'reader',
    'on',
    '>secret',
    '~*',
    '&*',
    '+@read',
    '+info',
    '+hello',
    '+client',
  )
  const { locks } = peer(t, guarded.port, { ioredis: { username: 'reader', password: 'secret' } })
  await assert.rejects(locks.mutex('x').acquire(), (error: Error & { code: string }) => {
    assert.equal(error.code, 'BACKEND')
    assert.match(error.message, /evalsha/)
    return true
  })
})

test('NOPERM: an account without INFO is refused, with the remedy; its holds are renewed and released', async (t) => {
  const guarded = await own(t)
  const account = (...rules: string[]) =>
    guarded.cli('ACL', 'SETUSER', 'app', 'on', '>secret', '~hf:*', '&hf:*', '+@all', ...rules)
  await account()
  const ioredis = { username: 'app', password: 'secret', enableReadyCheck: false }
  const { locks } = peer(t, guarded.port, { ioredis })
  const held = await locks.mutex('x').acquire()
  await account('-info')
  await held.extend()
  assert.equal(await held.release(), 'released')
  const refusal = { code: 'BACKEND', message: /may not run INFO.*\+info.*quarantine: 'off'/ }
  for (const quarantine of ['strict', 'detected'] as const) {
    const { locks } = peer(t, guarded.port, { ioredis, quarantine })
    await assert.rejects(locks.mutex('x').tryAcquire(), refusal)
    await assert.rejects(locks.mutex('x').acquire({ wait: 60_000 }), refusal)
  }
})

test('NOPERM: an account that loses INFO keeps its holds over a reconnection, and is granted nothing new', async (t) => {
  const guarded = await own(t)
  const account = (...rules: string[]) =>
    guarded.cli('ACL', 'SETUSER', 'app', 'on', '>secret', '~hf:*', '&hf:*', '+@all', ...rules)
  await account()
  const { locks, client } = peer(t, guarded.port, {
    ioredis: { username: 'app', password: 'secret', enableReadyCheck: false },
  })
  const [kept, taken] = [
    await locks.mutex('kept').acquire({ ttl: 6_000 }),
    await locks.mutex('taken').acquire(),
  ]
  let renewed = 0
  locks.on('renewed', ({ name }) => {
    if (name === 'kept') renewed++
  })
  await account('-info')
  const [closed, ready] = [once(client, 'close'), once(client, 'ready')]
  await guarded.cli('CLIENT', 'KILL', 'USER', 'app')
  await Promise.all([closed, ready])
  const before = renewed
  await until(() => renewed > before + 1)
  assert.equal(kept.state, 'held')
  assert.ok((await kept.extend()) > 0)
  await assert.rejects(locks.mutex('new').tryAcquire(), { code: 'BACKEND', message: /may not run INFO/ })
  // A loss is noticed as soon as the client is connected again, too.
  const gone = once(taken.signal, 'abort')
  client.disconnect(true)
  await guarded.cli('DEL', 'hf:{taken}')
  await gone
  assert.equal(await kept.release(), 'released')
})

test('quarantine off: INFO is not needed, but without it eviction goes unnoticed, which is reported once', async (t) => {
  const [guarded, bare] = [await own(t), await own(t, '--rename-command', 'INFO', '')]
  for (const server of [guarded, bare])
    await server.cli('ACL', 'SETUSER', 'app', 'on', '>secret', '~hf:*', '&hf:*', '+@all', '-info')
  await bare.cli('ACL', 'SETUSER', 'app', '+info').catch(() => undefined)
  const warnings: string[] = []
  const note = (warning: Error & { code?: string }) => void warnings.push(warning.code ?? '')
  process.on('warning', note)
  t.after(() => process.off('warning', note))
  for (const { port } of [guarded, bare]) {
    const { locks } = peer(t, port, {
      ioredis: { username: 'app', password: 'secret', enableReadyCheck: false },
      quarantine: 'off',
    })
    await locks.mutex('x').run(() => undefined)
    await locks.mutex('y').run(() => undefined)
  }
  const told = () => warnings.filter((code) => code.startsWith('HOLDFAST'))
  await until(() => told().length > 1)
  assert.deepEqual(told(), ['HOLDFAST_REDIS_INFO', 'HOLDFAST_REDIS_INFO'])
})

test('a closed client is distinguished from a server that does not answer', async (t) => {
  const { locks, client } = peer(t, server.port)
  await locks.mutex('x').run(() => undefined)
  client.disconnect()
  await until(() => client.status === 'end')
  await assert.rejects(locks.mutex('x').acquire(), /client is closed/)
})

test('a server that cannot be reached is an error once the wait is over, not before, and not "taken"', async (t) => {
  const { locks } = peer(t, 1, { commandTimeout: 100 })
  // The wait of a process that stalls may be over before the first request is.
  await until(async () => {
    const began = performance.now()
    const error = await locks
      .mutex('x')
      .acquire({ wait: 1_000 })
      .catch((caught) => caught)
    const waited = performance.now() - began
    assert.equal(error.code, 'UNAVAILABLE')
    assert.ok(waited > 200, `after ${waited} ms`)
    return /no answer within 100 ms/.test(error.message)
  })
})

after(leakCheck)
