// Every version of `@grpc/grpc-js` that package.json admits, oldest to newest: one short contract each.
// Second tier because it repeats for other versions of the client what the others show.
import assert from 'node:assert/strict'
import { execFile, fork } from 'node:child_process'
import { once as event } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { promisify } from 'node:util'
import { type GrpcVersion, grpcVersions } from '../drivers/etcd/support/grpc-versions.js'
import { tapped } from '../drivers/etcd/support/over-grpc.js'
import { cabled, driverOf, locksOf, placesOf } from '../drivers/etcd/support/scene.js'
import { never, once, waiting } from '../drivers/support/asking.js'
import type { EndsTask } from '../drivers/support/ends-child.js'
import { claim } from '../drivers/support/session-store.js'
import { leakCheck } from '../support/leaks.js'
import { startEtcd } from '../support/servers/etcd.js'
import { checkout } from '../support/servers/places.js'
import { until } from '../support/until.js'

const files = (name: string) => join(checkout, 'test/support/tls', name)
const [server, secure] = await Promise.all([
  startEtcd(),
  startEtcd({ tls: { cert: files('cert.pem'), key: files('key.pem') } }),
])
after(() => Promise.all([server.stop(), secure.stop()]))

/** So long that no renewal falls into what is counted. */
const ttl = 600_000

/** How many watches the server serves. */
async function watchers(): Promise<number> {
  const text = await (await fetch(`${server.url}/metrics`, { headers: { connection: 'close' } })).text()
  return Number(/^etcd_debugging_mvcc_watcher_total (\S+)$/m.exec(text)?.[1])
}

/** Resolves with the process once it holds the lock. */
async function holder({ version }: GrpcVersion, name: string) {
  const module = new URL('../drivers/etcd/support/in-child.js', import.meta.url).href
  const childClient = { module, export: 'makeOverGrpcOf', args: [version, [server.url]] }
  const task: EndsTask = { childClient, name, steps: [] }
  const file = new URL('../drivers/support/ends-child.js', import.meta.url)
  const child = fork(file, [JSON.stringify(task)])
  const gone = event(child, 'close')
  await Promise.race([
    event(child, 'message'),
    gone.then(([code]) => assert.fail(`the child ended with ${code} before it held`)),
  ])
  return { child, gone }
}

/** Runs `body`, with `open(endpoint, more)` for locks, in a process of its own; resolves with what it printed, once it has ended by itself. */
async function inProcess({ version }: GrpcVersion, body: string): Promise<string> {
  const module = (path: string) => JSON.stringify(new URL(path, import.meta.url).href)
  const program = `
    import { readFileSync } from 'node:fs'
    import { createLocks } from ${module('../../src/index.js')}
    import { makeOverGrpcOf } from ${module('../drivers/etcd/support/in-child.js')}
    const open = async (endpoint, more) => createLocks(await makeOverGrpcOf('${version}', [endpoint], more))
    ${body}`
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', program])
  return stdout
}

for (const one of grpcVersions) {
  const { version } = one

  test(`${version}: taken, handed over in two calls, listed, lost, closed`, async (t) => {
    const tap = tapped(await one.load())
    const [a, b] = [1, 2].map(() => locksOf(t, server.url, { grpc: tap.module }).locks)
    assert.ok(a && b)
    const lock = `taken ${version}`
    const lease = await a.mutex(lock).acquire({ ttl })
    assert.equal(await b.mutex(lock).tryAcquire(), undefined)
    assert.ok((await lease.extend()) > 0)
    const next = b.mutex(lock).acquire({ ttl, wait: 60_000 })
    await until(async () => (await placesOf(server, lock)).length === 2)
    await until(async () => (await watchers()) === 1)
    const from = tap.made.length
    assert.equal(await lease.release(), 'released')
    const second = await next
    assert.deepEqual(tap.made.slice(from), ['DeleteRange', 'Txn'])
    assert.ok(second.token > lease.token)
    assert.equal((await a.inspect(lock)).holders[0]?.token, second.token)
    assert.equal(await a.forceRelease(lock), 1)
    await second.extend().catch(() => undefined)
    assert.equal(second.isHeld, false)
    await Promise.all([a.close(), b.close()])
  })

  test(`${version}: a holder that is killed is out of the way when its lease ends`, async (t) => {
    const lock = `killed ${version}`
    const { child, gone } = await holder(one, lock)
    const { locks } = locksOf(t, server.url, { grpc: await one.load() })
    assert.equal(await locks.mutex(lock).tryAcquire(), undefined)
    child.kill('SIGKILL')
    await gone
    const lease = await locks.mutex(lock).acquire({ wait: 60_000 })
    assert.equal(await lease.release(), 'released')
  })

  test(`${version}: connections that break or fall silent are replaced, and none is left`, async (t) => {
    const { driver, cable } = await cabled(t, server, { grpc: await one.load(), requestTimeout: 1_000 })
    const name = `cable ${version}`
    const held = await driverOf(t, server.url).acquire(claim(name), once())
    const waits = driver.acquire(claim(name), waiting())
    // One for calls, one for the watch.
    await until(() => cable.links.length === 2)
    await until(async () => (await placesOf(server, name)).length === 2)
    cable.reset()
    await until(() => cable.accepted >= 4 && cable.links.length === 2)
    assert.equal(await held?.release(), 'released')
    const grant = await waits
    assert.ok(grant)
    const before = cable.accepted
    cable.blackHole()
    // The connection is not broken. Only a missing answer tells the driver to open another for its next request, which may have had its time
    // before the connection was accepted.
    for (let asked = 0; cable.accepted === before; asked++) {
      assert.ok(asked < 8, 'a silent connection is not replaced')
      await assert.rejects(grant.renew(30_000, never), { code: 'BACKEND' })
    }
    cable.heal()
    await until(async () => ((await grant.renew(30_000, never).catch(() => 0)) ?? 0) > 0)
    assert.equal(await grant.release(), 'released')
    await driver.close()
    await until(() => cable.links.length === 0)
  })

  test(`${version}: closed at any moment of its first request, it leaves no connection`, async (t) => {
    const { cable, driver: other } = await cabled(t, server, { grpc: await one.load() })
    for (let turns = 0; turns < 40; turns++) {
      const driver = driverOf(t, `127.0.0.1:${cable.port}`, { grpc: await one.load() })
      const asked = driver.acquire(claim(`closed ${version} ${turns}`), once()).catch(() => undefined)
      for (let turn = 0; turn < turns; turn++) await (turn < 30 ? undefined : setImmediate())
      await driver.close()
      await asked
    }
    // Whatever connects after all has done so before this has its answer.
    await (await other.acquire(claim(`closed ${version}`), once()))?.release()
    await other.close()
    await until(() => cable.links.length === 0)
  })

  test(`${version}: a lock over TLS, and none where the certificate is unknown or of another name`, async () => {
    const said = await inProcess(
      one,
      `const ca = readFileSync(${JSON.stringify(files('cert.pem'))})
      const { url } = ${JSON.stringify({ url: secure.url })}
      const locks = await open(url, { tls: { ca } })
      const lease = await locks.mutex('secret').acquire()
      console.log(await lease.release())
      const failed = async (tls) =>
        (await open(url, { tls })).mutex('secret').acquire({ wait: 1_000 }).catch((error) => console.log(error.code))
      await failed({})
      await failed({ ca, servername: 'elsewhere.example' })
      process.exit()`,
    )
    assert.equal(said, 'released\nUNAVAILABLE\nUNAVAILABLE\n')
  })

  test(`${version}: a process that waits stays until it holds, and ends by itself once it has released`, async (t) => {
    const lock = `ends ${version}`
    const { locks } = locksOf(t, server.url)
    const lease = await locks.mutex(lock).acquire({ ttl })
    const ended = inProcess(
      one,
      `const locks = await open(${JSON.stringify(server.url)})
      const lease = await locks.mutex(${JSON.stringify(lock)}).acquire({ wait: Infinity })
      console.log(await lease.release())`,
    )
    await until(async () => (await placesOf(server, lock)).length === 2, { within: 60_000 })
    await lease.release()
    assert.equal(await ended, 'released\n')
  })

  test(`${version}: where nothing listens is an outage that names the reason`, async () => {
    const said = await inProcess(
      one,
      `const locks = await open('127.0.0.1:1')
      await locks.mutex('x').tryAcquire().catch(({ code, reason }) => console.log(code, reason))
      await locks.close()`,
    )
    assert.equal(said, 'UNAVAILABLE ECONNREFUSED\n')
  })
}

test('the package asks for these versions and no others, and the docs name them', () => {
  const read = (file: string) => readFileSync(join(checkout, file), 'utf8')
  const { peerDependencies, devDependencies } = JSON.parse(read('package.json'))
  const tested = grpcVersions.map(({ version }) => version)
  const [oldest, newest] = [tested[0], tested.at(-1)]
  const library = '@grpc/grpc-js'
  assert.equal(peerDependencies[library], `>=${oldest} <${Number.parseInt(newest ?? '', 10) + 1}`)
  assert.equal(devDependencies[library], `^${newest}`)
  const named = new RegExp(`${library}\`? ${tested.join('(?:, |、)').replaceAll('.', '\\.')}(?!\\d)`)
  for (const page of ['docs/drivers/etcd.md', 'docs/zh/drivers/etcd.md']) assert.match(read(page), named)
})

after(leakCheck)
