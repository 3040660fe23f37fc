// Options of a client that change what it sends or answers, with every version that has them.
// Long because every option is in one table, and what is refused beside it.
// Second tier because it repeats for every version of the clients what the others show.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { type AddressInfo, connect } from 'node:net'
import { after, test } from 'node:test'
import { createServer } from 'node:tls'
import { Redis } from 'ioredis'
import { createLocks } from '../../../src/create-locks.js'
import { type RedisClient, redis } from '../../../src/drivers/redis/index.js'
import { redlock } from '../../../src/drivers/redlock/index.js'
import { leakCheck } from '../../support/leaks.js'
import { startMany } from '../../support/servers/redis.js'
import { handsOver, joined } from './support/contract.js'
import { peer, reachable } from './support/peer.js'
import { type ClientOptions, type Version, versionNamed, versions } from './support/versions.js'

interface Single {
  connect(): Promise<unknown>
  disconnect(): Promise<void>
}

const group = await startMany(3)
const [server] = group.servers
assert.ok(server)

/** In front of the server, for clients that speak TLS. */
const pem = (file: string) =>
  readFileSync(new URL(`../../../../test/support/tls/${file}.pem`, import.meta.url))
const secure = createServer({ key: pem('key'), cert: pem('cert') }, (socket) => {
  const inner = connect(server.port, '127.0.0.1')
  socket.pipe(inner).pipe(socket)
  for (const [one, other] of [
    [socket, inner],
    [inner, socket],
  ] as const) {
    one.on('error', () => other.destroy())
    one.on('close', () => other.destroy())
  }
})
await new Promise<void>((resolve) => secure.listen(0, '127.0.0.1', resolve))
const securePort = (secure.address() as AddressInfo).port
after(async () => {
  secure.close()
  await group.stop()
})

/** What node-redis gives instead of numbers, texts and lists, by the type bytes of RESP. */
const asText = { 58: String, 36: Buffer, 42: Array }
const forIoredis: Readonly<Record<string, ClientOptions>> = {
  keyPrefix: { keyPrefix: 'app:' },
  'keyPrefix, enableAutoPipelining': { keyPrefix: 'app:', enableAutoPipelining: true },
  stringNumbers: { stringNumbers: true },
  'enableOfflineQueue: false': { enableOfflineQueue: false },
  enableAutoPipelining: { enableAutoPipelining: true },
  'maxRetriesPerRequest: 0': { maxRetriesPerRequest: 0 },
  commandTimeout: { commandTimeout: 1_000 },
  'enableReadyCheck: false': { enableReadyCheck: false },
  db: { db: 3 },
  tls: { tls: { rejectUnauthorized: false } },
}
const forRedis: Readonly<Record<string, ClientOptions>> = {
  disableOfflineQueue: { disableOfflineQueue: true },
  'commandOptions.typeMapping': { commandOptions: { typeMapping: asText } },
  pingInterval: { pingInterval: 20 },
  database: { database: 3 },
  tls: { socket: { tls: true, rejectUnauthorized: false } },
}
const since5: Readonly<Record<string, ClientOptions>> = {
  'RESP: 2': { RESP: 2 },
  'RESP: 3': { RESP: 3 },
  'RESP: 3, typeMapping, asap': { RESP: 3, commandOptions: { typeMapping: asText, asap: true } },
}

function optionsOf({ library, version }: Version): Readonly<Record<string, ClientOptions>> {
  if (library === 'ioredis') {
    return version.startsWith('5') ? forIoredis : { ...forIoredis, 'protocol: 3': { protocol: 3 } }
  }
  return version.startsWith('4') ? forRedis : { ...forRedis, ...since5 }
}

for (const version of versions) {
  for (const [label, options] of Object.entries(optionsOf(version))) {
    test(`${version.name} with ${label}: taken, refused, handed over, shown, counted`, async (t) => {
      const name = `${version.name} ${label}`
      const port = label === 'tls' ? securePort : server.port
      const key = `${(options.keyPrefix as string) ?? ''}hf:{${name}}`
      const place = { is: 'single', port } as const
      const [a, b] = [await joined(t, version, place, options), await joined(t, version, place, options)]
      const lease = await a.locks.mutex(name).acquire()
      assert.equal(await b.locks.mutex(name).tryAcquire(), undefined)
      assert.ok((await lease.extend()) > 0)
      assert.deepEqual(
        (await b.locks.list(name)).map(({ holders }) => holders.length),
        [1],
      )
      assert.equal(await lease.release(), 'released')
      await handsOver(a, b, name, server, key, (options.db ?? options.database ?? 0) as number)
      const permits = a.locks.semaphore(`${name} permits`, { permits: 2 })
      const [one, two] = [await permits.acquire(), await permits.acquire()]
      assert.equal(await b.locks.semaphore(`${name} permits`, { permits: 2 }).tryAcquire(), undefined)
      for (const held of [one, two]) assert.equal(await held.release(), 'released')
      assert.equal(await a.locks.once(`${name} once`, async () => 'done'), 'done')
    })
  }
}

test('a client that has not been connected is reported as such, and a lazy one connects', async (t) => {
  for (const version of versions) {
    const { client, close } = await version.open({ is: 'single', port: server.port })
    const locks = createLocks(redis({ client }))
    t.after(() => locks.close().then(close))
    const taken = locks.mutex(`lazy ${version.name}`).acquire({ wait: 60_000 })
    if (version.library === 'ioredis') assert.equal(await (await taken).release(), 'released')
    else await assert.rejects(taken, /the client is closed; connect it first/)
  }
})

test('every key of redlock has the prefix of the client, with every version that has one', async (t) => {
  for (const version of versions) {
    if (version.name === 'redis 4.7.1' || version.name === 'redis 5.0.0') continue
    const keyPrefix = `${version.name} `
    const clients = await Promise.all(
      group.servers.map(({ port }) => version.open({ is: 'single', port }, { keyPrefix })),
    )
    for (const { start } of clients) await start()
    const locks = createLocks(redlock({ clients: clients.map(({ client }) => client) }))
    t.after(async () => {
      await locks.close()
      for (const { close } of clients) close()
    })
    const lease = await locks.mutex('prefixed').acquire()
    const keys = (await Promise.all(group.servers.map((one) => one.cli('KEYS', '*')))) as string[][]
    const own = keys.map((of) => of.filter((key) => key.startsWith(`${keyPrefix}hf:`)).length)
    // The lock is held once two of three servers have replied.
    assert.ok(own.filter((count) => count === 3).length >= 2, keys.join(' '))
    for (const of of keys)
      assert.deepEqual(
        of.filter((key) => /^hf:.*(redlock|prefixed)/.test(key)),
        [],
      )
    assert.equal(await lease.release(), 'released')
  }
})

test('a Cluster client with two prefixes is refused', async () => {
  for (const version of versions) {
    if (version.library !== 'ioredis') continue
    const place = { is: 'cluster', ports: [server.port] } as const
    const { client, close } = await version.open(place, { keyPrefix: 'a:' }, { keyPrefix: 'b:' })
    assert.throws(() => createLocks(redis({ client })), {
      name: 'TypeError',
      message: /two key prefixes, "b:" and in redisOptions "a:"; set one of them/,
    })
    close()
  }
})

test('legacyMode of redis 4, whose commands return nothing, is refused; its copy without it works', async (t) => {
  const version = versionNamed('redis 4.7.1')
  const { client } = await version.open({ is: 'single', port: server.port }, { legacyMode: true })
  const message = /the client has legacyMode.*duplicate\({ legacyMode: false }\)/
  assert.throws(() => createLocks(redis({ client })), { name: 'TypeError', message })
  assert.ok('duplicate' in client)
  const duplicate = client.duplicate as (options: object) => RedisClient & Single
  const copy = duplicate.call(client, { legacyMode: false })
  await copy.connect()
  const locks = createLocks(redis({ client: copy, quarantine: 'off' }))
  t.after(() => locks.close().then(() => copy.disconnect()))
  assert.equal(await (await locks.mutex('copied').acquire()).release(), 'released')
})

test('a client whose method throws, as an instrumented one can, fails the request and not the process', async (t) => {
  const client = new Redis(server.port, { disconnectTimeout: 100 } as object)
  const { evalsha } = client
  let throws = 0
  client.evalsha = (...args: unknown[]) => {
    if (throws > 0) throw new Error(`the tracer threw, ${throws--}`)
    return Reflect.apply(evalsha, client, args)
  }
  const { locks } = peer(t, server.port, { client })
  await locks.mutex('warm').run(() => undefined)
  throws = 2
  const lease = await locks.mutex('thrown').acquire({ wait: 10_000 })
  assert.equal(throws, 0)
  assert.equal(await lease.release(), 'released')
})

test('redlock: numbers as text (stringNumbers) keep, renew and release', async (t) => {
  const version = versionNamed('ioredis 5.11.1')
  const clients = await Promise.all(
    group.servers.map(({ port }) => version.open({ is: 'single', port }, { stringNumbers: true })),
  )
  const locks = createLocks(redlock({ clients: clients.map(({ client }) => client) }))
  t.after(async () => {
    await locks.close()
    for (const { close } of clients) close()
  })
  const lease = await locks.mutex('votes').acquire()
  assert.equal(
    await locks
      .mutex('votes other')
      .tryAcquire()
      .then((one) => one?.release()),
    'released',
  )
  assert.ok((await lease.extend()) > 0)
  assert.equal((await locks.inspect('votes')).holders.length, 1)
  assert.equal(await lease.release(), 'released')
})

test('many locks over one client put no more listeners on it than one', async (t) => {
  const warnings: Error[] = []
  const note = (warning: Error) => void warnings.push(warning)
  process.on('warning', note)
  t.after(() => process.off('warning', note))
  const [{ client, locks }, { client: subscriber }] = [peer(t, server.port), peer(t, server.port)]
  const counts = () =>
    [client, subscriber].map((one) => one.eventNames().map((event) => one.listenerCount(event)))
  await locks.mutex('first').run(() => undefined)
  const before = counts()
  const many = Array.from({ length: 20 }, () => createLocks(redis({ client, subscriber })))
  const lease = await locks.mutex('listened').acquire()
  const waits = many.map((one) => one.mutex('listened').run(() => undefined, { wait: 20_000 }))
  await reachable(server, 'listened', 20)
  await lease.release()
  await Promise.all(waits)
  for (const row of counts()) for (const count of row) assert.ok(count <= 3, String(counts()))
  for (const one of many) await one.close()
  assert.deepEqual(counts(), before)
  assert.deepEqual(warnings, [])
})

test('redis(client) says what to write, in one line', (t) => {
  const { client } = peer(t, server.port)
  assert.throws(() => redis(client as never), {
    message: 'redis() takes options: redis({ client }) instead of redis(client)',
  })
  function createTheClient() {}
  const wrong = { client: createTheClient as never }
  assert.throws(
    () => createLocks(redis(wrong)),
    /^TypeError: client must be .* got the function "createTheClient"$/,
  )
})

after(leakCheck)
