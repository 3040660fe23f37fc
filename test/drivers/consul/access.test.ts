// Tokens, TLS on the agent's side, datacenters, and bad input: refused with a helpful error, before any I/O where possible.
// Second tier because it starts agents with tokens, certificates and datacenters.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { target } from '../../../src/cli/connect.js'
import { createLocks } from '../../../src/create-locks.js'
import { type ConsulOptions, consul } from '../../../src/drivers/consul/index.js'
import { leakCheck } from '../../support/leaks.js'
import { type ConsulServer, startConsul } from '../../support/servers/consul.js'
import { checkout } from '../../support/servers/places.js'
import { freePort } from '../../support/servers/ports.js'
import { once, waiting } from '../support/asking.js'
import { waitsInVain } from '../support/in-vain.js'
import { claim } from '../support/session-store.js'
import { driverOf, locksOf, type More } from './support/scene.js'

const bad: readonly (readonly [options: unknown, complaint: RegExp])[] = [
  [undefined, /takes options such as { url/],
  [{}, /url must be an agent's address or a list/],
  [{ url: 'ftp://h' }, /"ftp:\/\/h" is not an address; write host:8500/],
  [{ url: 'http://me:pw@h' }, /must not contain a user; Consul has tokens/],
  [{ url: 'h', token: '' }, /token must be a string, got ""/],
  [{ url: 'h', prefix: '/x' }, /prefix must be a path without a leading slash/],
  [{ url: 'h', prefix: 'a/../b' }, /prefix must be a path/],
  [{ url: 'h', lockDelay: 61_000 }, /lockDelay must be a whole number from 0 to 60000 ms, got 61000/],
  [{ url: 'h', minTtl: 1 }, /minTtl must be a whole number from 100/],
  [{ url: 'h', session: 'own' }, /session must be 'process' or 'lock', got "own"/],
  [{ url: 'h', requestTimeout: '2s' }, /requestTimeout must be a number, got "2s"/],
]
for (const [options, complaint] of bad) {
  test(`consul(${JSON.stringify(options)}) is refused`, () => {
    assert.throws(() => consul(options as ConsulOptions), complaint)
  })
}

const urls: readonly (readonly [url: string, complaint: RegExp])[] = [
  ['consul:h', /names no host; write consul:\/\/host:8500/],
  ['consul://me:token@h', /has a user; Consul knows tokens/],
  ['consul://h/app', /has the path '\/app'; write \?prefix=app\//],
  ['consul://h?min-ttl=5', /min-ttl/],
  ['consul://h?dc=1', /unknown setting 'dc'; known are prefix, datacenter, min-ttl, tls, ca, cert, key/],
]
for (const [url, complaint] of urls) {
  test(`--on ${url} is refused before any I/O`, () => {
    assert.throws(() => target(url), complaint)
  })
}

test('the least ttl is that of Consul unless it is said to be another, and the server has the last word', async (t) => {
  await using server = await startConsul({ ttlMin: '10s' })
  const usual = createLocks(consul({ url: server.url }))
  t.after(() => usual.close())
  await assert.rejects(usual.mutex('a').acquire({ ttl: 5_000 }), /ttl must be from 10000/)
  await (await usual.mutex('a').acquire()).release()
  const driver = driverOf(t, server.url)
  const refused = driver.acquire(claim('a', { ttl: 2_000 }), waiting())
  await assert.rejects(refused, /Invalid Session TTL.*session_ttl_min on the servers and minTtl here/)
})

test('with ACLs a token is needed, and one that may write nothing is refused', async (t) => {
  const config = 'acl{enabled=true\ndefault_policy="deny"\ntokens{master="root"\nagent="root"}}'
  await using server = await startConsul({ config })
  const locks = locksOf(t, server.url, { token: 'root' }).locks
  await (await locks.mutex('a').acquire()).release()
  await (await locks.readWrite('r').read.acquire()).release()
  const refused: readonly More[] = [{}, { token: 'wrong' }]
  for (const more of refused) {
    await assert.rejects(
      driverOf(t, server.url, more).acquire(claim('a'), waiting()),
      (error: Error & { code?: string }) => {
        assert.match(error.message, /Permission denied|ACL not found/)
        return error.code === 'BACKEND'
      },
    )
  }
})

/** What docs/drivers/consul.md says a token needs, and nothing more. */
const policy = 'key_prefix "holdfast/" { policy = "write" }\nsession_prefix "" { policy = "write" }'

async function withPolicy(server: ConsulServer, rules: string) {
  const ask = async (method: string, path: string, body: object) => {
    const headers = { 'x-consul-token': 'root' }
    const answer = await fetch(`${server.url}${path}`, { method, headers, body: JSON.stringify(body) })
    assert.equal(answer.status, 200, path)
    return (await answer.json()) as { ID: string; SecretID: string }
  }
  const { ID } = await ask('PUT', '/v1/acl/policy', { Name: 'locks', Rules: rules })
  const { SecretID } = await ask('PUT', '/v1/acl/token', { Policies: [{ ID }] })
  return {
    token: SecretID,
    become: (Rules: string) => ask('PUT', `/v1/acl/policy/${ID}`, { ID, Name: 'locks', Rules }),
  }
}

const guarded = 'acl{enabled=true\ndefault_policy="deny"\ntokens{master="root"\nagent="root"}}'

test('a token with the least rights does everything a lock does, and nothing outside its prefix', async (t) => {
  await using server = await startConsul({ config: guarded })
  const { token } = await withPolicy(server, policy)
  const [a, b] = [locksOf(t, server.url, { token }).locks, locksOf(t, server.url, { token }).locks]
  const lease = await a.mutex('a').acquire({ ttl: 10_000 })
  const next = b.mutex('a').acquire({ ttl: 10_000, wait: 60_000 })
  assert.equal(await b.mutex('a').tryAcquire({ ttl: 10_000 }), undefined)
  assert.ok((await lease.extend()) > 0)
  await lease.release()
  await (await next).release()
  await (await a.readWrite('r').read.acquire({ ttl: 10_000 })).release()
  await (await a.semaphore('s', { permits: 2 }).acquire({ ttl: 10_000 })).release()
  assert.equal(await a.once('o', () => 7), 7)
  const held = await a.mutex('operated').acquire({ ttl: 10_000 })
  assert.deepEqual(
    (await b.list()).map(({ name }) => name),
    ['operated'],
  )
  assert.equal((await b.inspect('operated')).holders.length, 1)
  assert.equal(await b.forceRelease('operated'), 1)
  await held.release()
  const outside = locksOf(t, server.url, { token, prefix: 'elsewhere/' }).locks
  await assert.rejects(outside.mutex('a').acquire({ wait: 60_000 }), {
    code: 'BACKEND',
    message: /Permission denied|lacks|ACL/,
  })
})

test('a token that loses its rights in the middle loses its leases in time, and says why', async (t) => {
  await using server = await startConsul({ config: guarded })
  const { token, become } = await withPolicy(server, policy)
  const { locks } = locksOf(t, server.url, { token })
  const root = locksOf(t, server.url, { token: 'root' }).locks
  const lease = await locks.mutex('a').acquire({ ttl: 3_000 })
  const next = root
    .mutex('a')
    .acquire({ ttl: 3_000, wait: 60_000 })
    .then((second) => [second, lease.isHeld] as const)
  await become('key_prefix "elsewhere/" { policy = "write" }')
  const [second, believed] = await next
  assert.equal(believed, false)
  assert.ok(second.token > lease.token)
  assert.notEqual(await lease.release(), 'released')
  await assert.rejects(locks.mutex('b').acquire({ wait: 60_000 }), {
    code: 'BACKEND',
    message: /Permission denied|ACL/,
  })
  await second.release()
})

test('TLS: a certificate of another name, and a client without one where one is wanted, are refused', async (t) => {
  const files = (name: string) => join(checkout, 'test/support/tls', name)
  const port = await freePort()
  const config = `ports{https=${port}}\ncert_file="${files('cert.pem')}"\nkey_file="${files('key.pem')}"\nca_file="${files('cert.pem')}"\nverify_incoming_https=true`
  await using server = await startConsul({ config })
  assert.ok(server.running)
  const ca = readFileSync(files('cert.pem'))
  const own = { ca, cert: ca, key: readFileSync(files('key.pem')) }
  const url = `https://127.0.0.1:${port}`
  await (await locksOf(t, url, { tls: own }).locks.mutex('a').acquire()).release()
  const elsewhere = locksOf(t, url, { tls: { ...own, servername: 'elsewhere.example' } }).locks
  await waitsInVain(elsewhere, elsewhere.mutex('a'), /altnames|does not match/)
  const without = locksOf(t, url, { tls: { ca } }).locks
  await waitsInVain(without, without.mutex('a'), /certificate|ECONNRESET|socket|alert/i)
})

test('a datacenter that is not there is refused, its own is not', async (t) => {
  await using server = await startConsul()
  await (await locksOf(t, server.url, { datacenter: 'dc1' }).locks.mutex('a').acquire()).release()
  const driver = driverOf(t, server.url, { datacenter: 'elsewhere' })
  await assert.rejects(driver.acquire(claim('a'), waiting()), /No path to datacenter/i)
})

test('a URL with two agents, one of them down, leads to a lock', async (t) => {
  await using server = await startConsul()
  const url = `consul://127.0.0.1:1,127.0.0.1:${server.port}?prefix=cli/&min-ttl=1s`
  const { driver, close } = await target(url).connect()
  const locks = createLocks(driver)
  t.after(async () => {
    await locks.close()
    await close()
  })
  const lease = await locks.mutex('a').acquire({ ttl: 10_000 })
  const [lock] = (await server.ask('GET', '/v1/kv/cli/a/.lock')) as { ModifyIndex: number }[]
  assert.equal(lock?.ModifyIndex, lease.token)
  await lease.release()
})

test('TLS: with its certificate known it works, without it is refused', async (t) => {
  const files = (name: string) => join(checkout, 'test/support/tls', name)
  const port = await freePort()
  const config = `ports{https=${port}}\ncert_file="${files('cert.pem')}"\nkey_file="${files('key.pem')}"`
  await using server = await startConsul({ config })
  assert.ok(server.running)
  const url = `https://127.0.0.1:${port}`
  const lease = await locksOf(t, url, { tls: { ca: readFileSync(files('cert.pem')) } })
    .locks.mutex('secret')
    .acquire()
  await lease.release()
  await assert.rejects(driverOf(t, url).acquire(claim('secret'), once()), /self[- ]signed certificate/)
})

test('a name leads to the key that consul lock would use, and no name to the key of another', async (t) => {
  await using server = await startConsul()
  const locks = locksOf(t, server.url, { prefix: '' }).locks
  const lease = await locks.mutex('service/deploy').acquire()
  const [lock] = (await server.ask('GET', '/v1/kv/service/deploy/.lock')) as { ModifyIndex: number }[]
  assert.equal(lock?.ModifyIndex, lease.token)
  for (const name of [
    'service',
    'service/deploy/.lock',
    'service/deploy/',
    'service%2Fdeploy',
    '..',
    '.',
    'a//b',
  ]) {
    await (await locks.mutex(name).acquire()).release()
  }
  assert.deepEqual(
    (await locks.list()).map(({ name }) => name),
    ['service/deploy'],
  )
  await lease.release()
})

after(leakCheck)
