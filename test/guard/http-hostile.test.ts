// Clients of guarded resources that hang up, dawdle, invent and exaggerate, over real sockets.
// Long because each way to do that is one test.
import assert from 'node:assert/strict'
import { EventEmitter, once } from 'node:events'
import { createServer, request as httpRequest, type IncomingMessage, type Server } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { pipeline, Readable } from 'node:stream'
import { pipeline as finished } from 'node:stream/promises'
import { after, test } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
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
  type Fences,
  fenceHeaders,
  getFence,
  guardFetch,
  type HttpGuardOptions,
  honoGuard,
  memoryFences,
} from 'holdfast/guard'
import { Hono } from 'hono'
import { leakCheck } from '../support/leaks.js'
import { until } from '../support/until.js'

const headersOf = (token: number, name = 'a') => fenceHeaders({ name, token })

/** A promise and what settles it. */
function gate(): { readonly opened: Promise<void>; open(): void } {
  let open = () => {}
  const opened = new Promise<void>((resolve) => (open = resolve))
  return { opened, open }
}

interface Site {
  readonly port: number
  put(token: number, body?: string, name?: string): Promise<{ status: number; body: Record<string, unknown> }>
  /** A request whose body is written, or not, by hand. */
  raw(token: number, headers?: object): { socket: Socket; answered: Promise<string> }
  stop(): Promise<void>
}

async function site(server: Server): Promise<Site> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return {
    port,
    async put(token, body, name) {
      const given = httpRequest({ port, method: 'PUT', agent: false, headers: headersOf(token, name) })
      given.end(body)
      const [answer] = (await once(given, 'response')) as [IncomingMessage]
      let text = ''
      for await (const part of answer) text += part
      return { status: answer.statusCode ?? 0, body: JSON.parse(text) }
    },
    raw(token, headers = {}) {
      const socket = connect(port, '127.0.0.1')
      const lines = Object.entries({ host: 'a', ...headersOf(token), ...headers })
      socket.write(`PUT / HTTP/1.1\r\n${lines.map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n`)
      socket.setEncoding('utf8')
      let text = ''
      socket.on('data', (part) => (text += part))
      socket.on('error', () => undefined)
      return { socket, answered: once(socket, 'close').then(() => text) }
    },
    async stop() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}

/** Tells when the server has noticed that a response is over. */
const closed = new EventEmitter()
type Handler = (request: express.Request, response: express.Response) => unknown
function guarded(
  options: Partial<HttpGuardOptions<express.Request>>,
  handle?: Handler,
  parser = express.json(),
) {
  const app = express()
  // Express prints errors of handlers in any other.
  app.set('env', 'test')
  app.use((_request, response, next) => {
    response.once('close', () => closed.emit('close'))
    next()
  })
  const guard = expressGuard<express.Request>({ fences: memoryFences(), name: 'a', ...options })
  app.put('/', guard, parser, handle ?? ((request, response) => void response.json(getFence(request))))
  app.use(expressStale)
  return site(createServer(app))
}

test('a client that hangs up during its admission delays nobody', async () => {
  const [asked, may] = [gate(), gate()]
  const inner = memoryFences()
  const fences: Fences = {
    async admit(fence) {
      if (fence.token === 1) {
        asked.open()
        await may.opened
      }
      return inner.admit(fence)
    },
  }
  const handled: (number | undefined)[] = []
  const { raw, put, stop } = await guarded({ fences, limit: 600_000, wait: 600_000 }, (request, response) => {
    handled.push(getFence(request)?.token)
    response.json({})
  })
  const { socket, answered } = raw(1)
  await asked.opened
  const noticed = once(closed, 'close')
  socket.destroy()
  await noticed
  await answered
  const next = put(2)
  may.open()
  assert.equal((await next).status, 200)
  assert.equal((await put(3)).status, 200)
  assert.deepEqual(handled, [2, 3])
  await stop()
})

test('a client that hangs up before its admission delays nobody', async () => {
  const app = express()
  const [arrived, may] = [gate(), gate()]
  app.use(async (request, response, next) => {
    if (request.headers['holdfast-fence'] === headersOf(1)['holdfast-fence']) {
      response.once('close', may.open)
      arrived.open()
      await may.opened
    }
    next()
  })
  app.put(
    '/',
    expressGuard({ fences: memoryFences(), name: 'a', limit: 600_000, wait: 600_000 }),
    ((_, response) => void response.json({})) as Handler,
  )
  const { raw, put, stop } = await site(createServer(app))
  const { socket } = raw(1)
  await arrived.opened
  socket.destroy()
  await may.opened
  assert.equal((await put(2)).status, 200)
  await stop()
})

test('a turn lasts until the handler has ended, even if its client has hung up', async () => {
  const [working, may] = [gate(), gate()]
  const order: string[] = []
  const name = (request: express.Request) =>
    String(request.headers['holdfast-fence']).includes('another') ? 'another' : 'a'
  const { raw, put, stop } = await guarded({ name }, async (request, response) => {
    const token = getFence(request)?.token
    if (token === 9) return response.json({})
    order.push(`${token} in`)
    if (token === 1) {
      working.open()
      await may.opened
    }
    order.push(`${token} out`)
    return response.json({})
  })
  const { socket, answered } = raw(1)
  await working.opened
  const noticed = once(closed, 'close')
  socket.destroy()
  await noticed
  await answered
  const next = put(2)
  // Another name is not concerned, and by then the next one has been let in if it is.
  assert.equal((await put(9, undefined, 'another')).status, 200)
  may.open()
  assert.equal((await next).status, 200)
  assert.deepEqual(order, ['1 in', '1 out', '2 in', '2 out'])
  await stop()
})

test('a handler that never ends is cut off, and the next request is admitted', async () => {
  const { raw, put, stop } = await guarded({ limit: 50 }, (request, response) => {
    if (getFence(request)?.token !== 1) response.json({})
  })
  assert.equal(await raw(1).answered, '')
  assert.equal((await put(2)).status, 200)
  await stop()
  const fetched = guardFetch(
    (request) => (getFence(request)?.token === 1 ? new Promise(() => undefined) : Response.json({})),
    { fences: memoryFences(), name: 'a', limit: 20 },
  )
  const ask = (token: number) => fetched(new Request('http://localhost/', { headers: headersOf(token) }))
  assert.equal((await ask(1)).status, 503)
  assert.equal((await ask(2)).status, 200)
  const hono = new Hono()
  hono.get('/', honoGuard({ fences: memoryFences(), name: 'a', limit: 20 }), (c) =>
    getFence(c.req.raw)?.token === 1 ? new Promise<Response>(() => undefined) : c.json({}),
  )
  assert.equal((await hono.request('/', { headers: headersOf(1) })).status, 503)
  assert.equal((await hono.request('/', { headers: headersOf(2) })).status, 200)
})

test('a handler that fails once its response has begun is done', async () => {
  const { raw, put, stop } = await guarded({ limit: 600_000, wait: 60_000 }, (request, response) => {
    if (getFence(request)?.token !== 1) return response.json({})
    response.write('[')
    throw new Error('in the middle')
  })
  assert.match(await raw(1).answered, /^HTTP\/1.1 200 /)
  assert.equal((await put(2)).status, 200)
  await stop()
})

const endless = () =>
  new Readable({
    read() {
      this.push('part of it')
    },
  })
const streaming: Readonly<Record<string, (response: express.Response) => unknown>> = {
  pipe: (response) => endless().pipe(response),
  pipeline: (response) => pipeline(endless(), response, () => undefined),
  'an awaited pipeline': (response) => finished(endless(), response),
  'an awaited pipeline of a generator': (response) => finished(endless().iterator(), response),
  'destroy, when it notices': (response) => {
    response.write('part of it')
    response.once('close', () => response.destroy())
  },
}
for (const [how, stream] of Object.entries(streaming)) {
  test(`a handler that streams its response to a client that hangs up is done: ${how}`, async () => {
    const { raw, put, stop } = await guarded({ limit: 600_000, wait: 60_000 }, (request, response) =>
      getFence(request)?.token === 1 ? stream(response) : response.json({}),
    )
    const { socket, answered } = raw(1)
    await once(socket, 'data')
    socket.destroy()
    await answered
    assert.equal((await put(2)).status, 200)
    await stop()
  })
}

test('a handler that has piped a part of its response keeps its turn until it ends', async () => {
  const [working, may] = [gate(), gate()]
  const order: string[] = []
  const { raw, put, stop } = await guarded({ wait: 60_000 }, async (request, response) => {
    const token = getFence(request)?.token
    order.push(`${token} in`)
    if (token === 1) {
      await finished(Readable.from(['a part']), response, { end: false })
      working.open()
      await may.opened
    }
    order.push(`${token} out`)
    response.end('{}')
  })
  const { socket, answered } = raw(1)
  await working.opened
  const noticed = once(closed, 'close')
  socket.destroy()
  await noticed
  await answered
  const next = put(2)
  may.open()
  assert.equal((await next).status, 200)
  assert.deepEqual(order, ['1 in', '1 out', '2 in', '2 out'])
  await stop()
})

test('a body that does not arrive delays nobody, and is given up', async () => {
  const { raw, put, stop } = await guarded({ wait: 600_000 })
  const { socket, answered } = raw(1, { 'content-length': 10, 'content-type': 'application/json' })
  socket.write('{')
  assert.equal((await put(2, '')).status, 200)
  assert.equal((await put(3, '')).status, 200)
  socket.destroy()
  await answered
  await stop()
  const impatient = await guarded({ wait: 50 })
  const slow = impatient.raw(1, { 'content-length': 10 })
  slow.socket.write('{')
  assert.match(await slow.answered, /^HTTP\/1.1 408 [\s\S]*BODY_TOO_SLOW/)
  await impatient.stop()
})

test('a body of any length and in any pieces reaches a parser behind the guard', async () => {
  const { raw, stop } = await guarded(
    {},
    (request, response) => void response.json(request.body),
    express.json({ limit: '10mb' }),
  )
  const value = { text: 'ä'.repeat(300_000), list: [1, 2, 3] }
  const bytes = Buffer.from(JSON.stringify(value))
  const type = { 'content-type': 'application/json', connection: 'close' }
  for (const pieces of [1, 7, 200]) {
    const { socket, answered } = raw(pieces, { 'content-length': bytes.length, ...type })
    for (let i = 0; i < pieces; i++) {
      const part = bytes.subarray((i * bytes.length) / pieces, ((i + 1) * bytes.length) / pieces)
      if (!socket.write(part)) await once(socket, 'drain')
    }
    const answer = await answered
    assert.ok(answer.endsWith(JSON.stringify(value)), answer.slice(0, 200))
  }
  const chunked = raw(300, { 'transfer-encoding': 'chunked', ...type })
  chunked.socket.write('5\r\n[1,2,\r\n')
  chunked.socket.write('2\r\n3]\r\n0\r\n\r\n')
  assert.match(await chunked.answered, /^HTTP\/1.1 200 [\s\S]*\[1,2,3\]$/)
  const empty = raw(301, { 'transfer-encoding': 'chunked', ...type })
  empty.socket.write('0\r\n\r\n')
  assert.match(await empty.answered, /^HTTP\/1.1 [24]00 /)
  await stop()
})

test('a body that is too long is refused before it is read to its end', async () => {
  const { raw, put, stop } = await guarded({ maxBody: 1000 })
  assert.match(await raw(1, { 'content-length': 1001 }).answered, /^HTTP\/1.1 413 [\s\S]*BODY_TOO_LONG/)
  const { socket, answered } = raw(1, { 'transfer-encoding': 'chunked' })
  for (let i = 0; i < 3; i++) socket.write(`200\r\n${'x'.repeat(0x200)}\r\n`)
  assert.match(await answered, /^HTTP\/1.1 413 /)
  assert.equal((await put(1, '{}')).status, 200)
  await stop()
})

test('Fetch and Hono: a body is read before its turn, up to the size limit, and for no longer than the wait', async () => {
  const handle = async (request: Request) => new Response(await request.text())
  const options = { fences: memoryFences(), name: 'a', maxBody: 1000, wait: 50 }
  const hono = new Hono()
  hono.put('/', honoGuard(options), async (c) => c.text(await c.req.text()))
  for (const ask of [guardFetch(handle, options), async (request: Request) => hono.request(request)]) {
    const put = (body: ReadableStream<Uint8Array> | string) =>
      ask(
        new Request('http://localhost/', {
          method: 'PUT',
          headers: headersOf(1),
          body,
          duplex: 'half',
        } as RequestInit),
      )
    assert.equal(await (await put('x'.repeat(1000))).text(), 'x'.repeat(1000))
    assert.equal((await put('x'.repeat(1001))).status, 413)
    let cancelled = 0
    const cancel = () => void cancelled++
    const endless = new ReadableStream({ pull: (to) => to.enqueue(new Uint8Array(100)), cancel })
    assert.equal((await put(endless)).status, 413)
    assert.equal(
      (await put(new ReadableStream({ pull: () => new Promise(() => undefined), cancel }))).status,
      408,
    )
    assert.equal(cancelled, 2)
    assert.equal(await (await put('after')).text(), 'after')
  }
})

test('Fetch: a client that hangs up while it waits for its turn loses it', async () => {
  const may = gate()
  const handled: (number | undefined)[] = []
  const ask = guardFetch(
    async (request) => {
      handled.push(getFence(request)?.token)
      await may.opened
      return Response.json({})
    },
    { fences: memoryFences(), name: 'a', wait: 600_000 },
  )
  const gone = new AbortController()
  const put = (token: number, signal?: AbortSignal) =>
    ask(new Request('http://localhost/', { headers: headersOf(token), ...(signal && { signal }) }))
  const [first, second, third] = [put(1), put(2, gone.signal), put(3)]
  gone.abort()
  await second
  may.open()
  await Promise.all([first, third])
  assert.deepEqual(handled, [1, 3])
  // Who had gone before it came is not let in either.
  await put(4, AbortSignal.abort())
  assert.equal((await put(3)).status, 200)
})

test('an invented name is refused, and so is a token that no store has issued', async () => {
  const { put, stop } = await guarded({})
  assert.equal((await put(10)).status, 200)
  const invented = await put(1, undefined, 'b')
  assert.deepEqual([invented.status, invented.body['error']], [400, 'WRONG_LOCK'])
  const now = Date.now() * 1000
  for (const token of [Number.MAX_SAFE_INTEGER, now + 2 * 3_600_000_000]) {
    const { status, body } = await put(token)
    assert.deepEqual([status, body['error']], [400, 'BAD_FENCE'])
  }
  assert.equal((await put(now)).status, 200)
  assert.equal((await put(now + 60_000_000)).status, 200)
  assert.equal((await put(now)).status, 412)
  await stop()
  const strict = await guarded({ ahead: 1000 })
  assert.equal((await strict.put(Date.now() * 1000 + 60_000_000)).status, 400)
  await strict.stop()
})

test('100,000 names chosen by a stranger take little memory, and no stale token is admitted', async () => {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  const fences = memoryFences()
  const admit = (i: number, token: number) =>
    fences.admit({ name: `${'of a stranger '.repeat(5)}${i}`, token })
  for (let i = 0; i < 10_001; i++) await admit(i, 1000 + i)
  collect()
  const before = process.memoryUsage().heapUsed
  for (let i = 10_001; i < 110_000; i++) await admit(i, 1000 + i)
  collect()
  const grown = process.memoryUsage().heapUsed - before
  assert.ok(grown < 2 * 2 ** 20, `${grown} bytes`)
  for (let i = 0; i < 110_000; i += 1009) await assert.rejects(admit(i, 999 + i), StaleTokenError)
  // Who is newer than all is let in, whatever is remembered of others.
  await admit(0, 200_000)
})

test('a store that does not reply is 503, a lock that was not free 409, a stale token 412, and no holder is named', async () => {
  const told: unknown[] = []
  const down = new BackendError('redis', 'connect ECONNREFUSED 10.1.2.3:6379')
  const blocked = { holder: { token: 5, heldFor: 100, note: 'secret note', client: 'host-7 (4711)' } }
  const errors = [
    [down, 503, 'STORE_UNAVAILABLE'],
    [new AcquireTimeoutError('a', 100, blocked as never), 409, 'ACQUIRE_TIMEOUT'],
    [new AcquireTimeoutError('a', 100, { ...blocked, error: down } as never), 503, 'STORE_UNAVAILABLE'],
    [new TooManyWaitersError('a', 10), 503, 'TOO_MANY_WAITERS'],
    [new PoolClosedError('a'), 503, 'POOL_CLOSED'],
    [new StaleTokenError('a', 1, 2), 412, 'STALE_TOKEN'],
  ] as const
  for (const [error, status, code] of errors) {
    const fail = () => Promise.reject(error)
    const { put, stop } = await guarded({}, fail)
    const ask = guardFetch(fail, { fences: memoryFences(), name: 'a' })
    const fetched = await ask(new Request('http://localhost/', { headers: headersOf(1) }))
    const answers = [
      await put(1),
      { status: fetched.status, body: (await fetched.json()) as Record<string, unknown> },
    ]
    for (const answer of answers) {
      assert.deepEqual([answer.status, answer.body['error']], [status, code])
      assert.doesNotMatch(JSON.stringify(answer), /host-7|4711|secret|10\.1\.2\.3/)
    }
    await stop()
  }
  for (const admit of [() => Promise.reject(down), () => new Promise<void>(() => undefined)]) {
    const { put, stop } = await guarded({ fences: { admit }, wait: 50, onError: (error) => told.push(error) })
    const { status, body } = await put(1)
    assert.deepEqual([status, body['error']], [503, 'STORE_UNAVAILABLE'])
    assert.doesNotMatch(JSON.stringify(body), /10\.1\.2\.3/)
    await stop()
  }
  assert.equal(told[0], down)
  assert.match(String(told[1]), /the fences did not answer in time/)
})

test('a request that does not get its turn in time is told that the lock is busy', async () => {
  const [working, may] = [gate(), gate()]
  const { put, stop } = await guarded({ wait: 50 }, async (_, response) => {
    working.open()
    await may.opened
    response.json({})
  })
  const first = put(1)
  await working.opened
  const { status, body } = await put(2)
  assert.deepEqual([status, body['error']], [409, 'BUSY'])
  may.open()
  assert.equal((await first).status, 200)
  assert.equal((await put(2)).status, 200)
  await stop()
})

test('an onError that throws delays nobody', async () => {
  const inner = memoryFences()
  const admit: Fences['admit'] = (fence) =>
    fence.token === 1 ? Promise.reject(new Error('down')) : inner.admit(fence)
  const onError = () => {
    throw new Error('the log is full')
  }
  const warnings: string[] = []
  const listen = (warning: Error) => warnings.push(String(warning))
  process.on('warning', listen)
  const { put, stop } = await guarded({ fences: { admit }, onError })
  const { status, body } = await put(1)
  assert.deepEqual([status, body['error']], [503, 'STORE_UNAVAILABLE'])
  assert.equal((await put(2)).status, 200)
  await until(() =>
    warnings.includes('HoldfastWarning: onError of a guard over HTTP threw: Error: the log is full'),
  )
  process.off('warning', listen)
  await stop()
})

test('options that are missing, unknown or absurd are reported at once', () => {
  const fences = memoryFences()
  const make = (options: object) => () => expressGuard(options as never)
  assert.throws(make({ fences }), /needs name: the lock that protects the resource, .* got undefined/)
  assert.throws(make({ name: 'a' }), /needs fences/)
  assert.throws(make({ fences, name: 'a', maxbody: 5 }), /has no option "maxbody"; known are .*maxBody/)
  assert.throws(make({ fences, name: 'a', wait: -1 }), /wait must be a number of at least 0, got -1/)
  assert.throws(() => memoryFences({ names: 0 }), /names must be an integer of at least 1, got 0/)
})

after(leakCheck)
