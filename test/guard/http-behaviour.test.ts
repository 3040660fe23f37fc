// What clients, programs and applications rely on around a guard over HTTP: Retry-After, the end of the process, a guard met twice.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, test } from 'node:test'
import express from 'express'
import {
  AcquireTimeoutError,
  BackendError,
  PoolClosedError,
  StaleTokenError,
  TooManyWaitersError,
} from 'holdfast'
import {
  expressGuard,
  expressStale,
  fenceHeaders,
  getFence,
  guardFetch,
  honoGuard,
  memoryFences,
} from 'holdfast/guard'
import { Hono } from 'hono'
import { leakCheck } from '../support/leaks.js'

const headersOf = (token: number, name = 'a') => fenceHeaders({ name, token })

/** Asks a server that lives for one request. */
async function askOnce(listener: RequestListener, path = '/', headers = headersOf(1)) {
  const server = createServer(listener).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const response = await fetch(`http://127.0.0.1:${port}${path}`, {
    headers: { ...headers, connection: 'close' },
  })
  const body = (await response.json()) as Record<string, unknown>
  server.close()
  await once(server, 'close')
  return { status: response.status, retryAfter: response.headers.get('retry-after'), body }
}

test('an answer after which the client may try again says when, and no other does', async () => {
  const errors = [
    [new AcquireTimeoutError('a', 100, {} as never), 409, '1'],
    [new BackendError('redis', 'connect ECONNREFUSED'), 503, '5'],
    [new TooManyWaitersError('a', 10), 503, '5'],
    [new PoolClosedError('a'), 503, '5'],
    [new StaleTokenError('a', 1, 2), 412, null],
  ] as const
  for (const [error, status, seconds] of errors) {
    const fail = () => Promise.reject(error)
    const app = express().set('env', 'test')
    app.get('/', expressGuard({ fences: memoryFences(), name: 'a' }), fail)
    app.use(expressStale)
    const answer = await askOnce(app)
    assert.deepEqual([answer.status, answer.retryAfter], [status, seconds])
    const hono = new Hono().get('/', honoGuard({ fences: memoryFences(), name: 'a' }), fail)
    const guarded = guardFetch(fail, { fences: memoryFences(), name: 'a' })
    for (const ask of [hono.fetch, guarded]) {
      const response = await ask(new Request('http://localhost/', { headers: headersOf(1) }))
      assert.deepEqual([response.status, response.headers.get('retry-after')], [status, seconds])
    }
  }
})

test('a request that waits for its turn in vain is asked to come again in a second; one that was cut off is not', async () => {
  const guarded = guardFetch(() => new Promise<Response>(() => undefined), {
    fences: memoryFences(),
    name: 'a',
    wait: 20,
    limit: 200,
  })
  const ask = () => guarded(new Request('http://localhost/', { headers: headersOf(1) }))
  const [first, second] = await Promise.all([ask(), ask()])
  assert.deepEqual([first.status, first.headers.get('retry-after')], [503, null])
  assert.deepEqual([second.status, second.headers.get('retry-after')], [409, '1'])
})

test('a guard that a request meets twice lets it through the second time', async () => {
  const options = { fences: memoryFences(), name: 'a', wait: 300_000 }
  const guard = expressGuard(options)
  const app = express().use(guard)
  app.get('/', guard, (request, response) => void response.json(getFence(request)))
  assert.deepEqual(await askOnce(app), { status: 200, retryAfter: null, body: { name: 'a', token: 1 } })
  const honoTwice = honoGuard(options)
  const hono = new Hono().use(honoTwice).get('/', honoTwice, (c) => c.json(getFence(c.req.raw)))
  for (const token of [2, 3])
    assert.equal((await hono.request('/', { headers: headersOf(token) })).status, 200)
})

test('a guard met twice still keeps the next request waiting until the handler is done', async () => {
  const order: string[] = []
  let finish = () => {}
  const finished = new Promise<void>((resolve) => (finish = resolve))
  const guard = honoGuard({ fences: memoryFences(), name: 'a', wait: 300_000 })
  const hono = new Hono().use(guard).get('/', guard, async (c) => {
    const token = getFence(c.req.raw)?.token
    order.push(`${token} in`)
    if (token === 1) await finished
    order.push(`${token} out`)
    return c.json({})
  })
  const first = hono.request('/', { headers: headersOf(1) })
  const second = hono.request('/', { headers: headersOf(2) })
  setImmediate(finish)
  await Promise.all([first, second])
  assert.deepEqual(order, ['1 in', '1 out', '2 in', '2 out'])
})

test('a path that is not percent-encoded UTF-8 is 400, and any other error of name is the application’s', async () => {
  const name = (request: Request) => decodeURIComponent(new URL(request.url).pathname.slice(1))
  const hono = new Hono().onError((error, c) => c.text(String(error), 500))
  hono.get('/:id', honoGuard({ fences: memoryFences(), name }), (c) => c.json({}))
  const guarded = guardFetch(() => Response.json({}), { fences: memoryFences(), name })
  for (const ask of [hono.fetch, guarded])
    for (const path of ['%zz', '%', '%ff']) {
      const response = await ask(new Request(`http://localhost/${path}`, { headers: headersOf(1) }))
      assert.equal(response.status, 400)
      assert.equal(((await response.json()) as { error: string }).error, 'BAD_PATH')
    }
  const broken = guardFetch(() => Response.json({}), {
    fences: memoryFences(),
    name: () => {
      throw new Error('no such route')
    },
  })
  await assert.rejects(broken(new Request('http://localhost/', { headers: headersOf(1) })), /no such route/)
})

const programs = {
  Node: `
    const guard = expressGuard({ fences: memoryFences(), name: 'a' })
    const server = createServer((request, response) => guard(request, response, () => {
      client.destroy()
      server.close(() => console.log('closed'))
    }))
    server.listen(0, '127.0.0.1', () => {
      client = get({ port: server.address().port, headers })
      client.on('error', () => undefined)
    })
    let client`,
  Fetch: `
    const client = new AbortController()
    const hang = () => new Promise(() => {
      console.log('closed')
      client.abort()
    })
    const guarded = guardFetch(hang, { fences: memoryFences(), name: 'a' })
    void guarded(new Request('http://localhost/', { headers, signal: client.signal }))`,
}
for (const [kind, program] of Object.entries(programs))
  test(`a program ends by itself when its handler never does, once client and server are gone: ${kind}`, () => {
    const code = `
      import { createServer, get } from 'node:http'
      import { expressGuard, fenceHeaders, guardFetch, memoryFences } from 'holdfast/guard'
      const headers = fenceHeaders({ name: 'a', token: 1 })
      ${program}`
    const { status, stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', code], {
      encoding: 'utf8',
      timeout: 40_000,
    })
    assert.deepEqual([status, stdout, stderr], [0, 'closed\n', ''])
  })

after(leakCheck)
