// Second tier because it says of a busy client what access.test.ts says of one request.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { fakeClock } from '../../support/fake-clock.js'
import { leakCheck } from '../../support/leaks.js'
import { startProxy } from '../../support/proxy.js'
import { type EtcdServer, startEtcd } from '../../support/servers/etcd.js'
import { until } from '../../support/until.js'
import { once } from '../support/asking.js'
import { claim } from '../support/session-store.js'
import { cabled, locksOf, protocols } from './support/scene.js'

const root = { name: 'root', password: 'pw' }
/** On a machine that stalls, a login that is sent again would count as a second one. */
const login = { username: 'root', password: 'pw', requestTimeout: 60_000 }

/** A busy machine takes its time to compute what is kept of a password. */
const patient = () => AbortSignal.timeout(120_000)

async function withUsers(server: EtcdServer): Promise<void> {
  await server.ask('/v3/auth/user/add', root, patient())
  await server.ask('/v3/auth/role/add', { name: 'root' }, patient())
  await server.ask('/v3/auth/user/grant', { user: 'root', role: 'root' }, patient())
  await server.ask('/v3/auth/enable', {}, patient())
}

/** Ends every login so far; the password stays the same. */
async function forgetLogins(server: EtcdServer): Promise<void> {
  const { token } = (await server.ask('/v3/auth/authenticate', root, patient())) as { token: string }
  const answer = await fetch(`${server.url}/v3/auth/user/changepw`, {
    method: 'POST',
    headers: { authorization: token },
    body: JSON.stringify(root),
  })
  assert.equal(answer.status, 200, await answer.text())
}

async function loginsAt(server: EtcdServer): Promise<number> {
  const metrics = await (await fetch(`${server.url}/metrics`)).text()
  const count = /^grpc_server_started_total\{grpc_method="Authenticate",.*\} (\d+)$/m.exec(metrics)
  assert.ok(count, 'the server counts logins')
  return Number(count[1])
}

for (const [protocol, over] of protocols)
  test(`${protocol}: of many requests whose login has expired, one logs in for all`, async (t) => {
    await using server = await startEtcd()
    await withUsers(server)
    const { locks } = locksOf(t, server.url, { ...over, ...login })
    const lease = await locks.mutex('first').acquire({ ttl: 60_000 })
    await forgetLogins(server)
    const before = await loginsAt(server)
    const names = Array.from({ length: 50 }, (_, n) => `another-${n}`)
    const leases = await Promise.all(names.map((name) => locks.mutex(name).acquire({ ttl: 60_000 })))
    assert.equal((await loginsAt(server)) - before, 1)
    for (const one of [lease, ...leases]) await one.release()
  })

test('a token that arrives after its endpoint was left is used at the next one', async (t) => {
  await using server = await startEtcd()
  await withUsers(server)
  const isLogin = (bytes: Buffer) => bytes.includes('/v3/auth/authenticate')
  const silent = await startProxy({ port: server.port })
  t.after(() => silent.stop())
  silent.up.hold(isLogin)
  const clock = fakeClock()
  const { driver, cable } = await cabled(t, server, { ...login, requestTimeout: 2_000 }, clock, [
    `127.0.0.1:${silent.port}`,
  ])
  cable.up.hold(isLogin)
  const grant = driver.acquire(claim('a'), once())
  await cable.up.holding()
  await clock.advance(2_000)
  await silent.up.holding()
  let granted: unknown
  void grant.then((it) => {
    granted = it
  }, assert.ifError)
  cable.up.pass()
  await until(() => granted, { what: 'the lock, with the login of the endpoint that was left' })
})

for (const [protocol, over] of protocols)
  test(`${protocol}: a request that waits for a login is told that the locks were closed`, async (t) => {
    await using server = await startEtcd()
    await withUsers(server)
    const { driver, cable } = await cabled(t, server, { ...over, ...login })
    cable.down.hold()
    const closed = assert.rejects(async () => driver.forceRelease?.('a'), { code: 'CLOSED' })
    await cable.down.holding()
    await driver.close()
    await closed
  })

after(leakCheck)
