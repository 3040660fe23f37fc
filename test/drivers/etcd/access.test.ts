// Logins, TLS, and bad input: refused with a helpful error, before any I/O where possible.
// Second tier because it starts a server for each way to log in, and waits for sessions to run out.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { promisify } from 'node:util'
import { target } from '../../../src/cli/connect.js'
import { type EtcdOptions, etcd } from '../../../src/drivers/etcd/index.js'
import { fakeClock } from '../../support/fake-clock.js'
import { leakCheck } from '../../support/leaks.js'
import { type EtcdServer, startEtcd } from '../../support/servers/etcd.js'
import { checkout } from '../../support/servers/places.js'
import { until } from '../../support/until.js'
import { once, waiting } from '../support/asking.js'
import { waitsInVain } from '../support/in-vain.js'
import { claim } from '../support/session-store.js'
import { cabled, driverOf, locksOf, protocols } from './support/scene.js'

const bad: readonly (readonly [options: unknown, complaint: RegExp])[] = [
  [undefined, /takes options such as { endpoints/],
  [{}, /endpoints must be one address or a list/],
  [{ endpoints: [] }, /endpoints must be one address or a list/],
  [{ endpoints: ['ftp://h'] }, /"ftp:\/\/h" is not an endpoint; write host:2379/],
  [{ endpoints: [7] }, /must be a string, got 7/],
  [{ endpoints: 'http://me:pw@h' }, /must not contain a user; pass username and password/],
  [{ endpoints: 'h', username: 'me' }, /belong together/],
  [{ endpoints: 'h', prefix: 7 }, /prefix must be a string, got 7/],
  [{ endpoints: 'h', lease: 'own' }, /lease must be 'process' or 'lock', got "own"/],
  [{ endpoints: 'h', requestTimeout: 1 }, /whole number from 10 to 600000 ms, got 1/],
]
for (const [options, complaint] of bad) {
  test(`etcd(${JSON.stringify(options)}) is refused`, () => {
    assert.throws(() => etcd(options as EtcdOptions), complaint)
  })
}

const urls: readonly (readonly [url: string, complaint: RegExp])[] = [
  ['etcd:h', /names no host; write etcd:\/\/host:2379/],
  ['etcd://me@h', /half a login/],
  ['etcd://h/app', /has the path '\/app'; write \?prefix=app\//],
  ['etcd://h?tls=yes', /has tls=yes; it is true or false/],
  ['etcd://h?grpc=1', /has grpc=1; it is true or false/],
  ['etcd://h?db=1', /unknown setting 'db'; known are prefix, grpc, tls, ca, cert, key/],
  ['etcd://h:99999', /has a port that is not from 1 to 65535; write host, host:port/],
]
for (const [url, complaint] of urls) {
  test(`--on ${url} is refused before any I/O`, () => {
    assert.throws(() => target(url), complaint)
  })
}

for (const more of ['', '&grpc=true'])
  test(`a URL with several hosts, one of them down, leads to a lock${more}`, async (t) => {
    await using server = await startEtcd()
    const { driver, close } = await target(
      `etcd://127.0.0.1:1,127.0.0.1:${server.port}?prefix=cli/${more}`,
    ).connect()
    const { createLocks } = await import('../../../src/create-locks.js')
    const locks = createLocks(driver)
    t.after(async () => {
      await locks.close()
      await close()
    })
    const lease = await locks.mutex('a').acquire()
    const { kvs } = (await server.ask('/v3/kv/range', {
      key: Buffer.from('cli/a/').toString('base64'),
      range_end: Buffer.from('cli/a0').toString('base64'),
    })) as { kvs: { create_revision: string }[] }
    assert.deepEqual(
      kvs.map(({ create_revision }) => Number(create_revision)),
      [lease.token],
    )
    await lease.release()
  })

/**
 * In a process of its own: `@grpc/grpc-js` 1.14 leaves a socket behind for each connection that a server ends for want of a certificate.
 * @returns what a client without a certificate of its own is told
 */
async function withoutItsOwn(url: string, ca: string, protocol: string): Promise<string> {
  const module = (path: string) => JSON.stringify(new URL(path, import.meta.url).href)
  const program = `
    import { readFileSync } from 'node:fs'
    import { createLocks } from ${module('../../../src/index.js')}
    import { make, makeOverGrpc } from ${module('./support/in-child.js')}
    const open = ${protocol === 'grpc' ? 'makeOverGrpc' : 'make'}
    const locks = createLocks(open([${JSON.stringify(url)}], { tls: { ca: readFileSync(${JSON.stringify(ca)}) } }))
    locks.on('waiting', ({ blocked }) => {
      if (blocked.error === undefined) return
      console.log(blocked.error.message)
      process.exit()
    })
    await locks.mutex('secret').acquire({ wait: Infinity })
    console.log('granted')
    process.exit()`
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', program])
  return stdout
}

async function asRoot(server: EtcdServer, path: string, body: object): Promise<void> {
  const { token } = (await server.ask('/v3/auth/authenticate', { name: 'root', password: 'pw' })) as {
    token: string
  }
  const answer = await fetch(`${server.url}${path}`, {
    method: 'POST',
    headers: { authorization: token },
    body: JSON.stringify(body),
  })
  assert.equal(answer.status, 200, await answer.text())
}

for (const [protocol, over] of protocols) {
  test(`${protocol}: a cluster with users is used with a login, again when the login is good no more, and not without`, async (t) => {
    await using server = await startEtcd()
    const user = { name: 'root', password: 'pw' }
    await server.ask('/v3/auth/user/add', user)
    await server.ask('/v3/auth/role/add', { name: 'root' })
    await server.ask('/v3/auth/user/grant', { user: 'root', role: 'root' })
    await server.ask('/v3/auth/user/add', { name: 'app', password: 'secret' })
    await server.ask('/v3/auth/role/add', { name: 'locks' })
    const range_end = Buffer.from('holdfast0').toString('base64')
    const key = Buffer.from('holdfast/').toString('base64')
    await server.ask('/v3/auth/role/grant', {
      name: 'locks',
      perm: { permType: 'READWRITE', key, range_end },
    })
    await server.ask('/v3/auth/user/grant', { user: 'app', role: 'locks' })
    await server.ask('/v3/auth/enable', {})

    const driver = driverOf(t, server.url, { ...over, username: 'app', password: 'secret' })
    const grant = await driver.acquire(claim('a'), once())
    assert.ok(grant)
    // Logins are kept in memory: the server that comes back refuses those from before as it does those that have run out.
    await server.restart()
    const answered = () =>
      driver.inspect('a').then(
        () => true,
        () => false,
      )
    await until(answered, { within: 60_000, what: 'an answer after the restart' })
    assert.equal(await driver.acquire(claim('a'), once()), undefined)
    assert.equal((await driver.inspect('a')).holders[0]?.token, grant.token)

    // A change of the rights makes every login old, also of the watches that continue.
    const waiter = driverOf(t, server.url, { ...over, username: 'app', password: 'secret' })
    const waits = waiter.acquire(claim('a'), waiting())
    const places = async (name: string) => (await driver.inspect(name)).waiters.length
    await until(async () => (await places('a')) === 1)
    await asRoot(server, '/v3/auth/role/add', { name: 'another' })
    const second = await driver.acquire(claim('b'), once())
    const waitsToo = waiter.acquire(claim('b'), waiting())
    await until(async () => (await places('b')) === 1)
    await second?.release()
    assert.equal(await (await waitsToo)?.release(), 'released')
    await grant.release()
    assert.equal(await (await waits)?.release(), 'released')

    const refused: readonly (readonly [Parameters<typeof driverOf>[2], RegExp])[] = [
      [over, /user name is empty|invalid auth token|authentication/],
      [{ ...over, username: 'app', password: 'wrong' }, /authentication failed/],
      [{ ...over, username: 'app', password: 'secret', prefix: 'elsewhere/' }, /permission denied/],
    ]
    for (const [more, complaint] of refused) {
      const other = driverOf(t, server.url, more)
      await assert.rejects(other.acquire(claim('a'), waiting()), (error: Error & { code?: string }) => {
        assert.match(error.message, complaint)
        return error.code === 'BACKEND'
      })
    }
  })

  test(`${protocol}: TLS: with its certificate known it works, without it is refused`, async (t) => {
    const files = (name: string) => join(checkout, 'test/support/tls', name)
    await using server = await startEtcd({ tls: { cert: files('cert.pem'), key: files('key.pem') } })
    const ca = readFileSync(files('cert.pem'))
    const { locks } = locksOf(t, server.url, { ...over, tls: { ca } })
    const other = locksOf(t, server.url, { ...over, tls: { ca } }).locks
    const lease = await locks.mutex('secret').acquire()
    const next = other.mutex('secret').acquire()
    await locks.mutex('another').run(() => undefined)
    await lease.release()
    await (await next).release()
    const stranger = driverOf(t, server.url, over)
    await assert.rejects(stranger.acquire(claim('secret'), once()), /self[- ]signed certificate/)
    const plain = driverOf(t, server.url.replace('https', 'http'), over)
    await assert.rejects(plain.acquire(claim('secret'), once()), { code: 'BACKEND' })
  })

  test(`${protocol}: TLS: a certificate of another name, and a client without one where one is wanted, are refused; a login works over it`, async (t) => {
    const files = (name: string) => join(checkout, 'test/support/tls', name)
    const [cert, key] = [files('cert.pem'), files('key.pem')]
    await using server = await startEtcd({
      tls: { cert, key },
      args: ['--client-cert-auth', `--trusted-ca-file=${cert}`],
    })
    const ca = readFileSync(cert)
    const own = { ca, cert: ca, key: readFileSync(key) }
    const { locks } = locksOf(t, server.url, { ...over, tls: own })
    await locks.mutex('secret').run((lease) => assert.ok(lease.isHeld))
    const elsewhere = locksOf(t, server.url, {
      ...over,
      tls: { ...own, servername: 'elsewhere.example' },
    }).locks
    await waitsInVain(elsewhere, elsewhere.mutex('secret'), /altnames|does not match/)
    assert.match(await withoutItsOwn(server.url, cert, protocol), /certificate|ECONNRESET|socket|alert/i)
  })

  test(`${protocol}: a user who loses the right to the prefix in the middle loses the lease in time, and hears why`, async (t) => {
    await using server = await startEtcd()
    await server.ask('/v3/auth/user/add', { name: 'root', password: 'pw' })
    await server.ask('/v3/auth/role/add', { name: 'root' })
    await server.ask('/v3/auth/user/grant', { user: 'root', role: 'root' })
    await server.ask('/v3/auth/user/add', { name: 'app', password: 'secret' })
    await server.ask('/v3/auth/role/add', { name: 'locks' })
    const [key, range_end] = ['holdfast/', 'holdfast0'].map((text) => Buffer.from(text).toString('base64'))
    await server.ask('/v3/auth/role/grant', {
      name: 'locks',
      perm: { permType: 'READWRITE', key, range_end },
    })
    await server.ask('/v3/auth/user/grant', { user: 'app', role: 'locks' })
    await server.ask('/v3/auth/enable', {})
    const { locks } = locksOf(t, server.url, { ...over, username: 'app', password: 'secret' })
    const root = locksOf(t, server.url, { ...over, username: 'root', password: 'pw' }).locks
    const lease = await locks.mutex('a').acquire({ ttl: 3_000 })
    const next = root
      .mutex('a')
      .acquire({ wait: 60_000 })
      .then((second) => [second, lease.isHeld] as const)
    await asRoot(server, '/v3/auth/role/revoke', { role: 'locks', key, range_end })
    const [second, believed] = await next
    assert.equal(believed, false)
    assert.ok(second.token > lease.token)
    await assert.rejects(locks.mutex('b').acquire({ wait: 60_000 }), {
      code: 'BACKEND',
      message: /permission denied/,
    })
    await second.release()
  })
}

for (const [protocol, over] of protocols)
  test(`${protocol}: a login may take longer than a request, for etcd takes its time to check a password`, async (t) => {
    await using server = await startEtcd()
    const user = { name: 'root', password: 'pw' }
    await server.ask('/v3/auth/user/add', user)
    await server.ask('/v3/auth/role/add', { name: 'root' })
    await server.ask('/v3/auth/user/grant', { user: 'root', role: 'root' })
    await server.ask('/v3/auth/enable', {})
    const login = { ...over, username: 'root', password: 'pw', requestTimeout: 2_000 }
    const [slow, frozen] = [fakeClock(), fakeClock()]
    const one = await cabled(t, server, login, slow)
    one.cable.down.hold()
    const grant = one.driver.acquire(claim('slow'), once())
    await one.cable.down.holding()
    await slow.advance(9_000)
    one.cable.down.pass()
    assert.ok(await grant)

    const several = await cabled(t, server, login, frozen, [server.url])
    several.cable.down.hold()
    const elsewhere = several.driver.acquire(claim('frozen'), once())
    await several.cable.down.holding()
    // Another endpoint is left to be asked.
    await frozen.advance(2_000)
    assert.ok(await elsewhere)
  })

test('a server other than etcd is reported as such', async (t) => {
  const { createServer } = await import('node:http')
  const web = createServer((_, response) => response.writeHead(404).end('404 page not found'))
  await new Promise<void>((resolve) => web.listen(0, '127.0.0.1', resolve))
  t.after(() => {
    web.closeAllConnections()
    web.close()
  })
  const driver = driverOf(t, `127.0.0.1:${(web.address() as { port: number }).port}`)
  await assert.rejects(driver.acquire(claim('x'), waiting()), /has no \/v3 gateway .*etcd 3\.4 or newer/)
})

after(leakCheck)
