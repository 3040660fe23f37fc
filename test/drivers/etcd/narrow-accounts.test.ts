// What a login that may only read the locks, one without any right, and a stranger without a login can do where etcd has users.
// Second tier because it starts servers with users, of both versions.
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { leakCheck } from '../../support/leaks.js'
import { type EtcdServer, type EtcdVersion, startEtcd } from '../../support/servers/etcd.js'
import { until } from '../../support/until.js'
import { once } from '../support/asking.js'
import { claim } from '../support/session-store.js'
import { driverOf, locksOf } from './support/scene.js'

const base64 = (text: string) => Buffer.from(text).toString('base64')
const password = 'pw'
const app = { username: 'app', password }
const everybody = ['reader', 'nobody', undefined] as const

async function withUsers(server: EtcdServer): Promise<void> {
  for (const name of ['root', 'app', 'reader', 'nobody'])
    await server.ask('/v3/auth/user/add', { name, password })
  const range = { key: base64('holdfast/'), range_end: base64('holdfast0') }
  const roles = [
    ['root', undefined],
    ['app', 'READWRITE'],
    ['reader', 'READ'],
  ] as const
  for (const [name, permType] of roles) {
    await server.ask('/v3/auth/role/add', { name })
    if (permType) await server.ask('/v3/auth/role/grant', { name, perm: { permType, ...range } })
    await server.ask('/v3/auth/user/grant', { user: name, role: name })
  }
  await server.ask('/v3/auth/enable', {})
}

interface Answer {
  readonly status: number
  readonly is: Record<string, unknown>
}

/** Requests to the JSON gateway as one of the users, or as nobody at all. */
async function loggedIn(server: EtcdServer, name: string | undefined) {
  const login = name && (await server.ask('/v3/auth/authenticate', { name, password }))['token']
  return async (path: string, body: object): Promise<Answer> => {
    const headers = { connection: 'close', ...(login ? { authorization: String(login) } : {}) }
    const answer = await fetch(`${server.url}${path}`, {
      method: 'POST',
      headers,
      body: JSON.stringify(body),
    })
    return { status: answer.status, is: (await answer.json()) as Record<string, unknown> }
  }
}

/** The entry of the only claim in the queue of this lock. */
async function entryOf(server: EtcdServer, name: string): Promise<{ key: string; lease: string }> {
  const ask = await loggedIn(server, 'reader')
  const { is } = await ask('/v3/kv/range', {
    key: base64(`holdfast/${name}/`),
    range_end: base64(`holdfast/${name}0`),
  })
  const [entry] = is['kvs'] as { key: string; lease: string }[]
  assert.ok(entry)
  return entry
}

for (const version of ['3.4', '3.5'] satisfies EtcdVersion[]) {
  describe(`etcd ${version}`, () => {
    let server: EtcdServer
    before(async () => {
      server = await startEtcd({ version })
      await withUsers(server)
    })
    after(() => server.stop())

    test('a login that may only read, one without rights and a stranger take, release and end no lock', async (t) => {
      const { locks } = locksOf(t, server.url, app)
      const lease = await locks.mutex('a').acquire({ ttl: 60_000 })
      const { key, lease: ID } = await entryOf(server, 'a')
      for (const who of everybody) {
        const ask = await loggedIn(server, who)
        const refused: readonly (readonly [path: string, body: object])[] = [
          ['/v3/kv/put', { key, value: base64('x') }],
          ['/v3/kv/put', { key: base64('holdfast/b/x'), value: base64('x'), lease: ID }],
          ['/v3/kv/deleterange', { key }],
          ['/v3/kv/txn', { success: [{ request_delete_range: { key } }] }],
          ['/v3/lease/revoke', { ID }],
        ]
        for (const [path, body] of refused) {
          const { status, is } = await ask(path, body)
          assert.equal(status, who ? 403 : 400, `${who}: ${path}`)
          assert.match(JSON.stringify(is), /permission denied|user name is empty/)
        }
      }
      assert.ok((await lease.extend()) > 0)
      const reader = driverOf(t, server.url, { username: 'reader', password })
      await assert.rejects(reader.acquire(claim('b'), once()), {
        code: 'BACKEND',
        message: /permission denied/,
      })
      assert.equal((await reader.inspect('a')).holders[0]?.token, lease.token)
      assert.equal(await lease.release(), 'released')
    })

    test('anybody who reaches it, even without a login, sees all leases and can keep any of them alive', async (t) => {
      const driver = driverOf(t, server.url, app)
      const grant = await driver.acquire(claim('kept', { ttl: 60_000 }), once())
      const { lease: ID } = await entryOf(server, 'kept')
      for (const who of everybody) {
        const ask = await loggedIn(server, who)
        const { leases } = (await ask('/v3/lease/leases', {})).is as { leases: { ID: string }[] }
        assert.ok(leases.some((one) => one.ID === ID))
        assert.equal((await ask('/v3/lease/timetolive', { ID })).status, 200)
        assert.equal((await ask('/v3/lease/keepalive', { ID })).status, 200)
        // 3.5.9 and 3.4.26 refuse it to whoever may not read the keys; Debian's 3.4 is older.
        const names = await ask('/v3/lease/timetolive', { ID, keys: true })
        assert.equal(names.status === 200, version === '3.4' || who === 'reader', `${who}`)
      }
      await grant?.release()
    })

    test('a lock that a stranger keeps alive for a dead process can be force-released', async (t) => {
      const { locks } = locksOf(t, server.url, app)
      // As the entry of a process that has died: nobody of ours renews it.
      const ask = await loggedIn(server, 'app')
      const { ID } = (await ask('/v3/lease/grant', { TTL: '60' })).is
      await ask('/v3/kv/put', { key: base64('holdfast/dead/entry'), value: '', lease: ID })
      const stranger = await loggedIn(server, undefined)
      const left = async () => Number((await stranger('/v3/lease/timetolive', { ID })).is['TTL'])
      await until(async () => (await left()) <= 58)
      const { result } = (await stranger('/v3/lease/keepalive', { ID })).is as { result: { TTL: string } }
      assert.equal(result.TTL, '60')
      assert.equal(await locks.mutex('dead').tryAcquire(), undefined)
      assert.equal(await locks.forceRelease('dead'), 1)
      assert.equal(await (await locks.mutex('dead').acquire()).release(), 'released')
    })

    test('anybody who reaches it can end a lease without keys: a process takes its next lock on a new one', async (t) => {
      const { locks } = locksOf(t, server.url, app)
      const stranger = await loggedIn(server, 'nobody')
      for (let round = 0; round < 3; round++) {
        const lease = await locks.mutex('idle').acquire({ ttl: 60_000 })
        const { lease: ID } = await entryOf(server, 'idle')
        assert.equal(await lease.release(), 'released')
        assert.equal((await stranger('/v3/lease/revoke', { ID })).status, 200)
      }
      assert.equal(await (await locks.mutex('idle').acquire({ ttl: 60_000 })).release(), 'released')
    })

    test('anybody who reaches it can compact the history: waiters are still served', async (t) => {
      const { locks } = locksOf(t, server.url, app)
      const others = locksOf(t, server.url, app).locks
      const writer = await locks.readWrite('rw').write.acquire({ ttl: 60_000 })
      const reading = others.readWrite('rw').read.acquire({ ttl: 60_000, wait: 60_000 })
      await until(async () => (await locks.inspect('rw')).waiters.length === 1)
      const stranger = await loggedIn(server, undefined)
      const { header } = (await stranger('/v3/lease/leases', {})).is as { header: { revision: string } }
      assert.equal(
        (await stranger('/v3/kv/compaction', { revision: header.revision, physical: true })).status,
        200,
      )
      await writer.release()
      assert.equal(await (await reading).release(), 'released')
    })
  })
}

after(leakCheck)
