// The store applies a guarded write, and its reply is lost: a real server behind a proxy that breaks the connection once the write is
// visible to another client. Every guard must report the outcome as unknown; what a server answers, and what was never sent, stay as they are.
// Second tier because it starts every store that a guard writes to; etcd.test.ts and http.test.ts are the part for every change.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { createServer, type ServerResponse } from 'node:http'
import { createServer as createSecureServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { BackendError } from 'holdfast'
import {
  etcdGateway,
  expression,
  fenceKey,
  guardedCommands,
  guardedConsulTxn,
  guardedDelete,
  guardedPut,
  guardedSet,
  guardedTxn,
  guardedUpdate,
  guardedUpsert,
  guardFetch,
  httpObjects,
  mariadb,
  memoryFences,
  mysql2,
  pg,
  postgresJs,
  type RedisGuardClient,
  type Sql,
  withVersion,
} from 'holdfast/guard'
import { Redis } from 'ioredis'
import { createPool as createMariadbPool } from 'mariadb'
import { createPool as createMysql2Pool } from 'mysql2/promise'
import { Pool } from 'pg'
import postgres from 'postgres'
import { createClient } from 'redis'
import { root } from '../support/checkout.js'
import { leakCheck } from '../support/leaks.js'
import { startProxy, type TcpProxy } from '../support/proxy.js'
import { startConsul } from '../support/servers/consul.js'
import { startEtcd } from '../support/servers/etcd.js'
import { startMysql } from '../support/servers/mysql.js'
import { startPostgres } from '../support/servers/postgres.js'
import { startRedis } from '../support/servers/redis.js'

const fence = { name: 'stock', token: 5 }
const base64 = (text: string) => Buffer.from(text).toString('base64')

/** Sends the write, lets replies through until it is applied, and breaks the connection before the reply to it. */
async function loseReply(
  proxy: TcpProxy,
  write: () => Promise<unknown>,
  isApplied: () => Promise<boolean>,
): Promise<unknown> {
  proxy.down.hold()
  const outcome = write().then(
    (value) => assert.fail(`resolved with ${JSON.stringify(value)} though no reply came`),
    (error: unknown) => error,
  )
  for (;;) {
    await proxy.down.holding()
    if (await isApplied()) break
    proxy.down.letGo(1)
  }
  proxy.refuse()
  proxy.reset()
  const error = await outcome
  proxy.down.pass()
  await proxy.accept()
  return error
}

function assertUnknown(error: unknown, store: string, what: RegExp): void {
  assert.ok(error instanceof BackendError, String(error))
  const { code, outcome, driver, message, cause } = error
  assert.deepEqual({ code, outcome, driver }, { code: 'UNAVAILABLE', outcome: 'unknown', driver: store })
  assert.match(message, what)
  assert.match(message, /may or may not have been applied/)
  assert.ok(cause instanceof Error && !(cause instanceof BackendError), String(cause))
}

/** Nobody listens there, and nobody ever has: a request is not sent. */
async function closedPort(): Promise<string> {
  const proxy = await startProxy({ port: 1 })
  await proxy.stop()
  return `127.0.0.1:${proxy.port}`
}

/** The server's own words, or those of a connection that was never made: the client's error itself. */
async function assertAsItCame(write: Promise<unknown>, fields: object): Promise<void> {
  await assert.rejects(write, (error: unknown) => {
    assert.ok(!(error instanceof BackendError), String(error))
    const found = Object.fromEntries(Object.keys(fields).map((key) => [key, (error as never)[key]]))
    assert.deepEqual(found, fields)
    return true
  })
}

type Connect = (url: string) => { readonly db: Sql; end(): Promise<unknown> }

const mariadbOf = (url: string) => {
  const { hostname: host, port, username: user, pathname } = new URL(url)
  const options = {
    host,
    port: Number(port),
    user,
    database: pathname.slice(1),
    allowPublicKeyRetrieval: true,
  }
  return createMariadbPool({ ...options, connectionLimit: 1 })
}

const clients: Readonly<Record<string, readonly [start: typeof startPostgres | typeof startMysql, Connect]>> =
  {
    pg: [
      startPostgres,
      (url) => {
        const pool = new Pool({ connectionString: url, max: 1 })
        pool.on('error', () => undefined)
        return { db: pg(pool), end: () => pool.end() }
      },
    ],
    'postgres.js': [
      startPostgres,
      (url) => {
        const sql = postgres(url, { max: 1, onnotice: () => undefined })
        return { db: postgresJs(sql), end: () => sql.end() }
      },
    ],
    mysql2: [
      () => startMysql({ flavour: 'mysql' }),
      (url) => {
        const pool = createMysql2Pool({ uri: url, connectionLimit: 1 })
        return { db: mysql2(pool), end: () => pool.end() }
      },
    ],
    mariadb: [
      () => startMysql({ flavour: 'mariadb' }),
      (url) => {
        const pool = mariadbOf(url)
        return { db: mariadb(pool), end: () => pool.end() }
      },
    ],
  }

for (const [client, [start, connect]] of Object.entries(clients)) {
  test(`${client}: a row whose reply is lost may or may not be written; what the server refuses is thrown as it came`, async () => {
    await using server = await start()
    const direct = connect(server.url)
    await using proxy = await startProxy({ port: server.port })
    const over = connect(server.url.replace(/@[^/]*/, `@127.0.0.1:${proxy.port}`))
    const { db } = over
    await direct.db.run(
      'create table stock (id int primary key, amount int unique, fence bigint, version int default 0 not null)',
      [],
    )
    await direct.db.run('insert into stock (id, amount) values (1, 10), (2, 20), (3, 30), (4, 40)', [])
    const amountOf = async (id: number) => {
      const { rows } = await direct.db.run(`select amount from stock where id = ${id}`, [])
      return rows.length === 0 ? undefined : Number(rows[0]?.['amount'])
    }
    const rowOf = (id: number) => ({ table: 'stock', key: { id }, fence })
    const minus = { amount: expression('amount - ?', 1) }
    const writes: readonly [number, number | undefined, () => Promise<unknown>][] = [
      [1, 9, () => guardedUpdate(db, { ...rowOf(1), set: minus })],
      [2, 7, () => guardedUpsert(db, { ...rowOf(2), set: { amount: 7 } })],
      [3, undefined, () => guardedDelete(db, rowOf(3))],
      [4, 6, () => withVersion(db, { table: 'stock', key: { id: 4 } }, () => ({ amount: 6 }))],
    ]
    const store = db.dialect
    for (const [id, after, write] of writes) {
      const error = await loseReply(proxy, write, async () => (await amountOf(id)) === after)
      assertUnknown(error, store, /the write to stock/)
    }
    // Plain values may be sent twice under one lease, and a newer holder stops the repetition.
    await guardedUpsert(db, { ...rowOf(2), set: { amount: 7 } })
    await direct.db.run('update stock set fence = 6, amount = 21 where id = 2', [])
    await assert.rejects(guardedUpsert(db, { ...rowOf(2), set: { amount: 7 } }), { code: 'STALE_TOKEN' })

    const violated = store === 'postgres' ? { code: '23505' } : { errno: 1062 }
    await assertAsItCame(guardedUpdate(db, { ...rowOf(1), set: { amount: 21 } }), violated)
    await assertAsItCame(
      withVersion(db, { table: 'stock', key: { id: 4 } }, () => ({ amount: 21 })),
      violated,
    )
    const unknown = store === 'postgres' ? { code: '42P01' } : { errno: 1146 }
    await assertAsItCame(guardedDelete(db, { ...rowOf(1), table: 'nothing' }), unknown)
    await over.end()
    const late = connect(server.url.replace(/@[^/]*/, `@${await closedPort()}`))
    await assert.rejects(guardedUpdate(late.db, { ...rowOf(1), set: minus }), (error: unknown) => {
      assert.ok(!(error instanceof BackendError), String(error))
      return true
    })
    assert.equal(await amountOf(1), 9)
    await late.end()
    await direct.end()
  })
}

test('pg: a write for which the pool has no connection was not sent, and the error says so', async () => {
  await using server = await startPostgres()
  const pool = new Pool({ connectionString: server.url, max: 1, connectionTimeoutMillis: 100 })
  const taken = await pool.connect()
  const row = { table: 'stock', key: { id: 1 }, set: { amount: 1 }, fence }
  await assertAsItCame(guardedUpdate(pg(pool), row), { message: 'timeout exceeded when trying to connect' })
  taken.release()
  await pool.end()
  const secure = new Pool({ connectionString: server.url, ssl: true })
  await assertAsItCame(guardedUpdate(pg(secure), row), {
    message: 'The server does not support SSL connections',
  })
  await secure.end()
})

test('over TLS: a write to a server whose certificate is not accepted was not sent', async () => {
  const file = (name: string) => readFileSync(join(root, 'test/support/tls', name))
  const server = createSecureServer({ cert: file('cert.pem'), key: file('key.pem') }, (request) =>
    assert.fail(`${request.url} was sent`),
  )
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const url = `https://127.0.0.1:${(server.address() as AddressInfo).port}`
  const put = guardedTxn(etcdGateway(url), { fence, fenceKey: 'fence', operations: [] })
  await assertAsItCame(put, { message: 'fetch failed' })
  server.closeAllConnections()
  await new Promise((resolve) => server.close(resolve))
})

type OpenRedis = (url: string) => Promise<{ readonly client: RedisGuardClient; end(): void }>

const redisClients: Readonly<Record<string, OpenRedis>> = {
  async ioredis(url) {
    const client = new Redis(url, { maxRetriesPerRequest: 0 })
    client.on('error', () => undefined)
    return { client, end: () => client.disconnect() }
  },
  async 'node-redis'(url) {
    const client = createClient({ url, disableOfflineQueue: true })
    client.on('error', () => undefined)
    await client.connect()
    return { client: client as unknown as RedisGuardClient, end: () => client.destroy() }
  },
}

for (const [name, open] of Object.entries(redisClients)) {
  test(`${name}: commands whose reply is lost may or may not have run; what the server refuses is thrown as it came`, async () => {
    await using server = await startRedis()
    const direct = new Redis(server.url)
    await using proxy = await startProxy({ port: server.port })
    const there = `redis://127.0.0.1:${proxy.port}`
    const decrease = { fence, fenceKey: fenceKey('left'), keys: ['left'], commands: [['DECRBY', 'left', 3]] }
    const writes: readonly [string, string, (client: RedisGuardClient) => Promise<unknown>][] = [
      ['set', '12', (client) => guardedSet(client, { key: 'set', value: 12, fence })],
      ['left', '-3', (client) => guardedCommands(client, decrease)],
    ]
    for (const [key, after, write] of writes) {
      const { client, end } = await open(there)
      await guardedSet(client, { key: 'warm', value: 1, fence })
      const error = await loseReply(
        proxy,
        () => write(client),
        async () => (await direct.get(key)) === after,
      )
      assertUnknown(error, 'redis', /the write under .* with token 5/)
      end()
    }
    const { client, end } = await open(there)
    await direct.lpush('list', 'a')
    const wrong = { ...decrease, keys: ['list'], commands: [['GET', 'list']] }
    await assert.rejects(guardedCommands(client, wrong), (error: Error) => {
      assert.ok(!(error instanceof BackendError))
      assert.match(error.message, /^WRONGTYPE/)
      return true
    })
    end()
    direct.disconnect()
  })
}

test('ioredis sends a command again whose reply was lost, by itself: one that counts counts twice', async () => {
  await using server = await startRedis()
  const direct = new Redis(server.url)
  await using proxy = await startProxy({ port: server.port })
  const client = new Redis(`redis://127.0.0.1:${proxy.port}`)
  client.on('error', () => undefined)
  const decrease = { fence, fenceKey: fenceKey('left'), keys: ['left'], commands: [['DECRBY', 'left', 3]] }
  assert.deepEqual(await guardedCommands(client, decrease), [-3])
  proxy.down.hold()
  const replies = guardedCommands(client, decrease)
  await proxy.down.holding()
  assert.equal(await direct.get('left'), '-6')
  proxy.reset()
  proxy.down.pass()
  assert.deepEqual(await replies, [-9])
  client.disconnect()
  direct.disconnect()
})

test('etcd: a transaction whose reply is lost may or may not be carried out; a refusal is thrown as it came', async () => {
  await using server = await startEtcd()
  await using proxy = await startProxy({ port: server.port })
  const send = etcdGateway(`http://127.0.0.1:${proxy.port}`)
  const at = { fence, fenceKey: 'fence' }
  const put = { request_put: { key: base64('stock'), value: base64('12') } }
  const isThere = async () =>
    ((await server.ask('/v3/kv/range', { key: base64('stock') })) as { kvs?: unknown[] }).kvs !== undefined
  const error = await loseReply(proxy, () => guardedTxn(send, { ...at, operations: [put] }), isThere)
  assertUnknown(error, 'etcd', /the transaction/)
  await guardedTxn(send, { ...at, operations: [put] })
  await assert.rejects(guardedTxn(send, { ...at, operations: [{ request_put: { key: '' } }] }), {
    name: 'Error',
    message: /^etcd answered 400/,
  })
  const closed = etcdGateway(`http://${await closedPort()}`)
  await assertAsItCame(guardedTxn(closed, { ...at, operations: [put] }), { message: 'fetch failed' })
})

test('Consul: a transaction whose reply is lost may or may not be carried out; a refusal is thrown as it came', async () => {
  await using server = await startConsul()
  await using proxy = await startProxy({ port: server.port })
  const at = { fence, fenceKey: 'fence' }
  const set = { Verb: 'set', Key: 'stock', Value: base64('12') }
  const options = { url: `http://127.0.0.1:${proxy.port}` }
  const isThere = async () => (await fetch(`${server.url}/v1/kv/stock?raw`)).ok
  const write = () => guardedConsulTxn(options, { ...at, operations: [set] })
  assertUnknown(await loseReply(proxy, write, isThere), 'consul', /the transaction on fence with token 5/)
  await write()
  const refused = { Verb: 'check-index', Key: 'stock', Index: 1 }
  await assert.rejects(guardedConsulTxn(options, { ...at, operations: [refused] }), {
    name: 'Error',
    message: /^operation 0 was refused by Consul/,
  })
  const closed = guardedConsulTxn({ url: `http://${await closedPort()}` }, { ...at, operations: [set] })
  await assertAsItCame(closed, { message: 'fetch failed' })
})

/** An object store with conditional writes; `answer` decides what becomes of the reply to a put that was applied. */
async function objectStore(answer: (response: ServerResponse) => void) {
  const objects = new Map<string, string>()
  const server = createServer((request, response) => {
    const key = request.url ?? ''
    const token = objects.get(key)
    if (request.method === 'HEAD') {
      response.writeHead(token === undefined ? 404 : 200, {
        etag: '"1"',
        'x-amz-meta-holdfast-token': token ?? '',
      })
      return response.end()
    }
    if (key === '/refused') return response.writeHead(403).end()
    objects.set(key, String(request.headers['x-amz-meta-holdfast-token']))
    return request.resume().on('end', () => answer(response))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
  const close = () => {
    server.closeAllConnections()
    return new Promise((resolve) => server.close(resolve))
  }
  return { objects, url, close }
}

const lostPuts: Readonly<Record<string, (response: ServerResponse) => void>> = {
  'a put whose reply is lost': (response) => response.destroy(),
  'a put that a gateway answers with 502': (response) => response.writeHead(502).end(),
}
for (const [what, answer] of Object.entries(lostPuts)) {
  test(`objects: ${what} may or may not be applied; a refusal is thrown as it came`, async () => {
    const store = await objectStore(answer)
    const put = (key: string) => guardedPut(httpObjects(store.url), { key, body: 'x', fence })
    const error = await put('stock').catch((thrown: unknown) => thrown)
    assertUnknown(error, 'objects', /the put of stock with token 5/)
    assert.equal(store.objects.get('/stock'), '5')
    await assertAsItCame(put('refused'), { name: 'Error', message: 'PUT refused failed with status 403' })
    await store.close()
    const closed = httpObjects(`http://${await closedPort()}/`)
    await assertAsItCame(guardedPut(closed, { key: 'stock', body: 'x', fence }), { message: 'fetch failed' })
  })
}

test('over HTTP, a handler whose write may or may not have been applied answers 503 without Retry-After', async () => {
  const store = await objectStore((response) => response.destroy())
  const handler = async () => {
    await guardedPut(httpObjects(store.url), { key: 'stock', body: 'x', fence })
    return new Response()
  }
  const guarded = guardFetch(handler, { fences: memoryFences(), name: 'stock', optional: true })
  const response = await guarded(new Request('http://localhost/'))
  assert.equal(response.status, 503)
  assert.equal(response.headers.get('retry-after'), null)
  assert.equal(((await response.json()) as { error: string }).error, 'OUTCOME_UNKNOWN')
  await store.close()
})

after(leakCheck)
