import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, test } from 'node:test'
import express from 'express'
import { createLocks, StaleTokenError } from 'holdfast'
import {
  expressGuard,
  expressStale,
  fenceHeader,
  fenceHeaders,
  getFence,
  guardedPut,
  guardFetch,
  honoGuard,
  httpObjects,
  memoryFences,
  parseFence,
} from 'holdfast/guard'
import { proveGuard } from 'holdfast/guard/testing'
import { memory } from 'holdfast/memory'
import { Hono } from 'hono'
import { leakCheck } from '../support/leaks.js'
import { until } from '../support/until.js'
import { isNoToken, noTokens } from './support/no-tokens.js'

type Send = (path: string, init?: RequestInit) => Promise<Response>

/** Reads and writes values under a path, as every server below serves them. */
const overHttp = (send: Send) => (id: string) => ({
  async write(value: string, fence: { name: string; token: number }) {
    const response = await send(`/${id}`, { method: 'PUT', body: value, headers: fenceHeaders(fence) })
    const { error, newest } = (await response.json()) as { error?: string; newest?: number }
    if (response.status === 412) {
      assert.equal(error, 'STALE_TOKEN')
      throw new StaleTokenError(fence.name, fence.token, newest)
    }
    assert.equal(response.status, 200)
  },
  async read() {
    const response = await send(`/${id}`)
    return response.status === 404 ? undefined : await response.text()
  },
})

/** The kit's tokens go up to the greatest there are. */
const anyToken = { ahead: Number.POSITIVE_INFINITY }

const short = () => new Promise((resolve) => setTimeout(resolve, Math.random() * 3))

async function listening(server: Server): Promise<{ send: Send; stop(): Promise<void> }> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return {
    send: (path, init) => fetch(`http://127.0.0.1:${port}${path}`, init),
    async stop() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}

test('Fetch: the kit proves the guard before a handler that takes its time', async () => {
  const values = new Map<string, string>()
  const guarded = guardFetch(
    async (request) => {
      const text = await request.text()
      await short()
      values.set(new URL(request.url).pathname, text)
      return Response.json({})
    },
    { ...anyToken, fences: memoryFences(), name: (request) => new URL(request.url).pathname.slice(1) },
  )
  const send: Send = async (path, init) => {
    if (init?.method === 'PUT') return guarded(new Request(`http://localhost${path}`, init))
    return values.has(path) ? new Response(values.get(path)) : new Response(null, { status: 404 })
  }
  await proveGuard(overHttp(send))
})

test('Express: the kit proves the guard on a real server', async () => {
  const values = new Map<string, string>()
  const app = express()
  app.get('/:id', (request, response) => {
    const value = values.get(request.params.id)
    if (value === undefined) response.status(404).end()
    else response.send(value)
  })
  app.put(
    '/:id',
    expressGuard({
      ...anyToken,
      fences: memoryFences(),
      name: (request: express.Request) => String(request.params['id']),
    }),
    express.text({ type: '*/*' }),
    async (request, response) => {
      await short()
      values.set(String(request.params['id']), request.body)
      response.json({})
    },
  )
  const { send, stop } = await listening(createServer(app))
  await proveGuard(overHttp(send), { rounds: 20 })
  await stop()
})

test('Hono: the kit proves the guard', async () => {
  const values = new Map<string, string>()
  const app = new Hono()
  app.get('/:id', (c) => {
    const value = values.get(c.req.param('id'))
    return value === undefined ? c.notFound() : c.text(value)
  })
  app.put(
    '/:id',
    honoGuard({
      ...anyToken,
      fences: memoryFences(),
      name: (request) => new URL(request.url).pathname.slice(1),
    }),
    async (c) => {
      const text = await c.req.text()
      await short()
      values.set(c.req.param('id'), text)
      return c.json({})
    },
  )
  await proveGuard(
    overHttp(async (path, init) => app.request(path, init)),
    { rounds: 20 },
  )
})

test('a request without a fence, with a bad one or with that of another lock gets an error that says so', async () => {
  const guarded = guardFetch(() => Response.json({}), { fences: memoryFences(), name: () => 'mine' })
  const ask = async (header?: string) => {
    const headers = header === undefined ? {} : { [fenceHeader]: header }
    const response = await guarded(new Request('http://localhost/', { headers }))
    const { error, message } = (await response.json()) as Record<string, string>
    return [response.status, error, message]
  }
  assert.deepEqual(await ask('name=mine;token=5'), [200, undefined, undefined])
  assert.deepEqual((await ask())?.slice(0, 2), [428, 'FENCE_REQUIRED'])
  assert.deepEqual((await ask('name=other;token=5'))?.slice(0, 2), [400, 'WRONG_LOCK'])
  for (const bad of [
    '',
    'mine',
    'name=mine',
    'name=mine;token=-1',
    'name=mine;token=0',
    'name=%ff;token=1',
    'name=mine;token=9999999999999999',
  ])
    assert.deepEqual((await ask(bad))?.slice(0, 2), [400, 'BAD_FENCE'], bad)
  assert.equal((await ask('name=mine;token=4'))[0], 412)
})

test('without a header a request passes where the guard is optional', async () => {
  const guarded = guardFetch((request) => Response.json(getFence(request) ?? 'none'), {
    fences: memoryFences(),
    name: 'a',
    optional: true,
  })
  assert.equal(await (await guarded(new Request('http://localhost/'))).json(), 'none')
})

test('Fetch: a handler gets what its server passes beside the request, as a route of Next.js its parameters', async () => {
  class NextRequest extends Request {
    readonly nextUrl = new URL(this.url)
  }
  interface Context {
    readonly params: Promise<{ readonly id: string }>
  }
  const PUT = guardFetch(
    async (request: NextRequest, { params }: Context) =>
      Response.json([request.nextUrl.pathname, (await params).id, getFence(request)]),
    { fences: memoryFences(), name: (request) => `invoice:${request.nextUrl.pathname.slice(1)}` },
  )
  const fence = { name: 'invoice:7', token: 1 }
  const request = new NextRequest('http://localhost/7', { method: 'PUT', headers: fenceHeaders(fence) })
  const answer = await PUT(request, { params: Promise.resolve({ id: '7' }) })
  assert.deepEqual(await answer.json(), ['/7', '7', fence])
})

test('a StaleTokenError of the handler is 412 everywhere, any other error is left alone', async () => {
  const stale = () => {
    throw new StaleTokenError('a', 1, 2)
  }
  const broken = () => {
    throw new Error('broken')
  }
  const headers = fenceHeaders({ name: 'a', token: 1 })
  const request = () => new Request('http://localhost/', { headers })
  const options = { fences: memoryFences(), name: 'a' }
  assert.equal((await guardFetch(stale, options)(request())).status, 412)
  await assert.rejects(async () => guardFetch(broken, options)(request()), /broken/)

  const hono = new Hono()
  hono.get('/stale', honoGuard(options), stale)
  hono.get('/broken', honoGuard(options), broken)
  hono.onError((error, c) => c.text(error.message, 500))
  assert.equal((await hono.request('/stale', { headers })).status, 412)
  assert.equal((await hono.request('/broken', { headers })).status, 500)

  const app = express()
  app.get('/stale', expressGuard(options), stale)
  app.get('/broken', expressGuard(options), broken)
  app.use(expressStale)
  app.use(
    ((_error, _request, response, _next) => void response.status(500).end()) as express.ErrorRequestHandler,
  )
  const { send, stop } = await listening(createServer(app))
  const answer = await send('/stale', { headers })
  assert.equal(answer.status, 412)
  assert.equal(((await answer.json()) as { newest: number }).newest, 2)
  assert.equal((await send('/broken', { headers })).status, 500)
  await stop()
})

test('a newer request waits until the older one of the same lock has ended; requests of other locks do not', async () => {
  const order: string[] = []
  let finish = () => {}
  const slow = new Promise<void>((resolve) => (finish = resolve))
  const guarded = guardFetch(
    async (request) => {
      const what = new URL(request.url).pathname
      order.push(`${what} in`)
      if (what === '/slow') await slow
      order.push(`${what} out`)
      return Response.json(getFence(request))
    },
    { fences: memoryFences(), name: (request) => (request.url.endsWith('/other') ? 'b' : 'a') },
  )
  const ask = (path: string, name: string, token: number) =>
    guarded(new Request(`http://localhost${path}`, { headers: fenceHeaders({ name, token }) }))
  const older = ask('/slow', 'a', 1)
  await until(() => order.length === 1)
  const newer = ask('/newer', 'a', 2)
  const other = await ask('/other', 'b', 1)
  assert.deepEqual(await other.json(), { name: 'b', token: 1 })
  finish()
  await Promise.all([older, newer])
  assert.deepEqual(order, ['/slow in', '/other in', '/other out', '/slow out', '/newer in', '/newer out'])
})

test('the header carries any name and the lease itself', async () => {
  await using locks = createLocks(memory())
  const name = 'account:42; token=7, ä💾'
  const lease = await locks.mutex(name).acquire()
  const headers = fenceHeaders(lease)
  const request = new Request('http://localhost/', { headers })
  assert.deepEqual(parseFence(request.headers.get(fenceHeader) ?? ''), { name, token: lease.token })
  await lease.release()
  assert.throws(() => fenceHeaders(lease), { code: 'LEASE_LOST' })
})

/** An object store as S3 describes its conditional writes: If-Match, If-None-Match, metadata headers. */
function objectServer(): Server {
  const meta = 'x-amz-meta-holdfast-token'
  const objects = new Map<string, { body: string; etag: string; token: string | undefined }>()
  let versions = 0
  return createServer(async (request, response) => {
    const there = objects.get(request.url ?? '')
    const { 'if-match': match, 'if-none-match': none } = request.headers
    let body = ''
    for await (const chunk of request) body += chunk
    if (request.method !== 'PUT') {
      response.statusCode = there === undefined ? 404 : 200
      if (there !== undefined) response.setHeader('etag', there.etag)
      if (there?.token !== undefined) response.setHeader(meta, there.token)
      response.end(request.method === 'HEAD' ? undefined : there?.body)
      return
    }
    const now = objects.get(request.url ?? '')
    if ((match !== undefined && match !== now?.etag) || (none === '*' && now !== undefined))
      response.statusCode = 412
    else {
      const token = request.headers[meta]
      objects.set(request.url ?? '', { body, etag: `"${++versions}"`, token: token as string | undefined })
    }
    response.end()
  })
}

test('object store: the kit proves put-if-match with the token in the metadata', async () => {
  const { send, stop } = await listening(objectServer())
  const store = httpObjects('/', send)
  const client = (id: string) => ({
    write: (value: string, fence: { name: string; token: number }) =>
      guardedPut(store, { key: id, body: value, fence, attempts: 20 }),
    async read() {
      const response = await send(`/${id}`)
      return response.status === 404 ? undefined : await response.text()
    },
  })
  await proveGuard(client, { rounds: 20 })
  const careless = (id: string) => ({
    ...client(id),
    async write(value: string, { name, token }: { name: string; token: number }) {
      const newest = Number((await store.head(id))?.token ?? 0)
      if (newest > token) throw new StaleTokenError(name, token, newest)
      await send(`/${id}`, {
        method: 'PUT',
        body: value,
        headers: { 'x-amz-meta-holdfast-token': String(token) },
      })
    },
  })
  await assert.rejects(proveGuard(careless), { rule: 'the newest token wins when all write at once' })
  await stop()
})

test('object store: metadata that have no token where it belongs let nobody in', async () => {
  const { send, stop } = await listening(objectServer())
  const meta = 'x-amz-meta-holdfast-token'
  // The server of this test, like HTTP itself, drops spaces around a header's value and takes no others than ASCII.
  for (const found of ['', ...noTokens.filter((one) => /^[!-~]+$/.test(one))]) {
    await send('/a', { method: 'PUT', body: 'before', headers: { [meta]: found } })
    await assert.rejects(
      guardedPut(httpObjects('/', send), { key: 'a', body: 'stale', fence: { name: 'n', token: 5 } }),
      isNoToken('a', found),
    )
  }
  assert.equal(await (await send('/a')).text(), 'before')
  await stop()
})

test('object store: a key that a URL would treat as a path step is refused', async () => {
  const store = httpObjects('http://127.0.0.1:1/bucket/', () => Promise.reject(new Error('was sent')))
  for (const key of ['.', '..'])
    await assert.rejects(
      guardedPut(store, { key, body: 'b', fence: { name: 'n', token: 1 } }),
      /is not a valid object key; choose another/,
    )
})

test('object store: what it does not understand is reported with the key', async () => {
  const { send, stop } = await listening(
    createServer((_request, response) => {
      response.statusCode = 500
      response.end()
    }),
  )
  const put = guardedPut(httpObjects('/', send), { key: 'a', body: 'b', fence: { name: 'n', token: 1 } })
  await assert.rejects(put, /HEAD a failed with status 500/)
  await stop()
})

after(leakCheck)
