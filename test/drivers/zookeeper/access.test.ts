// TLS, on a server that speaks it itself.
// Second tier because it starts a server with certificates for TLS.
import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { createLocks } from 'holdfast'
import { type ZookeeperOptions, zookeeper } from 'holdfast/zookeeper'
import { target } from '../../../src/cli/connect.js'
import { leakCheck } from '../../support/leaks.js'
import { checkout, makeFolder } from '../../support/servers/places.js'
import { startZookeeper } from '../../support/servers/zookeeper.js'
import { until } from '../../support/until.js'

const file = (name: string) => join(checkout, 'test/support/tls', name)
const ca = readFileSync(file('cert.pem'))
const folder = makeFolder('tls')
const pem = join(folder.path, 'server.pem')
writeFileSync(pem, Buffer.concat([readFileSync(file('key.pem')), ca]))
const server = await startZookeeper({ tls: pem })
const secure = server.secureAddress ?? ''

const open = (options: Omit<ZookeeperOptions, 'servers' | 'strategy'>, servers = secure) =>
  createLocks(zookeeper({ servers, sessionTimeout: 10_000, tickTime: 500, ...options }))

test('over TLS a lock is taken, waited for, handed over and kept', async () => {
  const [a, b] = [open({ tls: { ca } }), open({ tls: { ca } })]
  const lease = await a.mutex('secret').acquire({ ttl: 9_000 })
  const next = b.mutex('secret').acquire()
  await new Promise((resolve) => a.on('renewed', resolve))
  assert.equal(lease.isHeld, true)
  await lease.release()
  await (await next).release()
  // One line with those who come without.
  const plain = open({}, server.address)
  const third = await plain.mutex('secret').acquire()
  assert.equal(await a.mutex('secret').tryAcquire(), undefined)
  await third.release()
  for (const locks of [a, b, plain]) await locks.close()
})

test('an untrusted certificate, or one for another name, is refused, and the error says so', async () => {
  const refused: readonly (readonly [ZookeeperOptions['tls'], RegExp])[] = [
    [{}, /self[- ]signed certificate/],
    [
      { ca, servername: 'elsewhere.example' },
      /does not match certificate's altnames|Hostname\/IP does not match/,
    ],
  ]
  for (const [tls, complaint] of refused) {
    const locks = open({ ...(tls && { tls }) })
    const troubles: string[] = []
    locks.on('waiting', ({ blocked }) => troubles.push(blocked.error?.message ?? ''))
    const stop = new AbortController()
    const ended = assert.rejects(
      locks.mutex('secret').acquire({ wait: Number.POSITIVE_INFINITY, signal: stop.signal }),
      { message: 'enough' },
    )
    await until(() => troubles.some((trouble) => complaint.test(trouble)), { within: 60_000 })
    stop.abort(new Error('enough'))
    await ended
    await locks.close()
  }
})

test('plain text to the TLS port, or TLS to the plain port, gets no lock and no reply', async () => {
  for (const locks of [open({}), open({ tls: { ca } }, server.address)]) {
    await assert.rejects(locks.mutex('secret').acquire({ wait: 1_500 }), {
      code: 'UNAVAILABLE',
      message: /gave no answer about "secret"/,
    })
    await locks.close()
  }
})

test('a URL asks for TLS with its certificate', async () => {
  const { driver, close } = await target(`zookeeper://${secure}/cli?ca=${file('cert.pem')}`).connect()
  const locks = createLocks(driver)
  await locks.mutex('a').run((lease) => assert.ok(lease.token > 0))
  await locks.close()
  await close()
  assert.throws(() => target(`zookeeper://${secure}?ca=/nowhere.pem`), /nowhere\.pem/)
  assert.throws(() => target(`zookeeper://${secure}?tls=yes`), /tls=yes; it is true or false/)
})

test('a login and acl creator: clients with the same login share the locks, nobody else acquires or sees them, also over TLS', async () => {
  const digest = (credential: string) => ({ auth: { scheme: 'digest', credential }, chroot: '/ours' })
  const a = open({ ...digest('app:one'), acl: 'creator' }, server.address)
  const b = open({ ...digest('app:one'), acl: 'creator', tls: { ca } })
  const lease = await a.mutex('private').acquire({ note: 'secret' })
  const next = b.mutex('private').acquire()
  const [other, nobody] = [open(digest('app:two'), server.address), open({ chroot: '/ours' }, server.address)]
  for (const locks of [other, nobody]) {
    const refused = {
      name: 'BackendError',
      code: 'BACKEND',
      message: /the login lacks a right.*\(acl, auth\)/,
    }
    await assert.rejects(locks.mutex('private').acquire({ wait: 60_000 }), refused)
    await assert.rejects(locks.mutex('new').acquire({ wait: 60_000 }), refused)
    await assert.rejects(locks.inspect('private'), refused)
    await assert.rejects(locks.forceRelease('private'), refused)
  }
  await lease.extend()
  await lease.release()
  await (await next).release()
  for (const locks of [a, b, other, nobody]) await locks.close()
})

test('an account that may only read sees the holders, and acquires nothing', async () => {
  const anyone = { scheme: 'world', id: 'anyone', permissions: 'r' }
  const login = { scheme: 'digest', credential: 'app:one' }
  const own = { scheme: 'auth', id: '', permissions: 'crwda' }
  const chroot = '/shown'
  const a = open({ auth: login, acl: [own, anyone], chroot }, server.address)
  const lease = await a.mutex('seen').acquire({ note: 'shown' })
  const reader = open({ chroot }, server.address)
  assert.equal((await reader.inspect('seen')).holders[0]?.note, 'shown')
  await assert.rejects(reader.mutex('seen').acquire({ wait: 60_000 }), {
    code: 'BACKEND',
    message: /lacks a right/,
  })
  await assert.rejects(reader.forceRelease('seen'), { code: 'BACKEND', message: /lacks a right/ })
  assert.equal(lease.isHeld, true)
  await lease.release()
  for (const locks of [a, reader]) await locks.close()
})

test('a client that may not write to the node of a lock that was passed on is refused, and tokens keep growing', async () => {
  const others = { scheme: 'world', id: 'anyone', permissions: 'crd' }
  const own = { scheme: 'auth', id: '', permissions: 'crwda' }
  const login = { auth: { scheme: 'digest', credential: 'app:one' }, acl: [own, others], chroot: '/passed' }
  const [a, c] = [open(login, server.address), open(login, server.address)]
  const b = open({ chroot: '/passed' }, server.address)
  const first = await a.mutex('x').acquire()
  const heir = a.mutex('x').acquire()
  const refused = assert.rejects(b.mutex('x').acquire(), { code: 'BACKEND', message: /lacks a right.*write/ })
  await until(async () => (await a.inspect('x')).waiters.length === 1)
  await first.release()
  const second = await heir
  const last = c.mutex('x').acquire()
  await until(async () => (await a.inspect('x')).waiters.length === 2)
  await second.release()
  await refused
  const third = await last
  assert.ok(first.token < second.token && second.token < third.token)
  await third.release()
  // What nobody passed on it can have.
  await (await b.mutex('x').acquire()).release()
  for (const locks of [a, b, c]) await locks.close()
})

test('a server that wants a certificate of its clients serves those that bring one, and no others', async () => {
  await using strict = await startZookeeper({
    tls: pem,
    config: ['ssl.clientAuth=need', `ssl.trustStore.location=${file('cert.pem')}`, 'ssl.trustStore.type=PEM'],
  })
  const mine = open({ tls: { ca, cert: ca, key: readFileSync(file('key.pem')) } }, strict.secureAddress)
  await (await mine.mutex('a').acquire({ wait: 60_000 })).release()
  const stranger = open({ tls: { ca } }, strict.secureAddress)
  await assert.rejects(stranger.mutex('a').acquire({ wait: 1_500 }), {
    message: /the store was in trouble|no answer|closed the connection|certificate/,
  })
  for (const locks of [mine, stranger]) await locks.close()
})

for (const tls of [true, 'cert.pem', null]) {
  test(`tls: ${JSON.stringify(tls)} is refused before any I/O`, () => {
    assert.throws(() => zookeeper({ servers: 'h', tls } as unknown as ZookeeperOptions), {
      name: 'TypeError',
      message: /tls must be an object such as { ca }/,
    })
  })
}

after(async () => {
  await server.stop()
  await folder.remove()
})
after(leakCheck)
