// The guard in front of handlers that speak HTTP/2, over node:http2 and its interface for handlers of node:http.
import assert from 'node:assert/strict'
import { EventEmitter, once } from 'node:events'
import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect,
  createServer,
  type Http2ServerRequest,
  type Http2ServerResponse,
} from 'node:http2'
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import { after, test } from 'node:test'
import { expressGuard, fenceHeaders, getFence, type HttpGuardOptions, memoryFences } from 'holdfast/guard'
import { leakCheck } from '../support/leaks.js'

type Handler = (request: Http2ServerRequest, response: Http2ServerResponse) => unknown

/** Tells when the server has noticed that a response is over. */
const closed = new EventEmitter()

async function guarded(
  options: Partial<HttpGuardOptions<Http2ServerRequest>>,
  handle: Handler,
  before: Handler = () => undefined,
) {
  const guard = expressGuard<Http2ServerRequest>({ fences: memoryFences(), name: 'a', ...options })
  const server = createServer(async (request, response) => {
    request.on('error', () => undefined)
    response.once('close', () => closed.emit('close'))
    await before(request, response)
    guard(request, response, () => void handle(request, response))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const session: ClientHttp2Session = connect(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
  const begin = (token: number, headers: object = {}): ClientHttp2Stream => {
    const stream = session.request(
      { ':method': 'PUT', ':path': '/', ...fenceHeaders({ name: 'a', token }), ...headers },
      { endStream: false },
    )
    stream.on('error', () => undefined)
    return stream
  }
  return {
    begin,
    async put(token: number, body?: string): Promise<{ status: number; text: string }> {
      const stream = begin(token)
      stream.end(body)
      const [headers] = (await once(stream, 'response')) as [Record<string, unknown>]
      let text = ''
      for await (const part of stream.setEncoding('utf8')) text += part
      return { status: Number(headers[':status']), text }
    },
    async stop() {
      session.destroy()
      server.close()
      await once(server, 'close')
    },
  }
}

test('HTTP/2: a handler finds a body of any length and in any pieces, or none', async () => {
  const { begin, put, stop } = await guarded({}, async (request, response) => {
    let text = ''
    for await (const part of request.setEncoding('utf8')) text += part
    response.end(text)
  })
  assert.deepEqual(await put(1), { status: 200, text: '' })
  const body = 'ä'.repeat(300_000)
  assert.ok((await put(2, body)).text === body)
  const stream = begin(3)
  for (const part of ['one ', 'two ', 'three']) await new Promise((sent) => stream.write(part, sent))
  stream.end()
  let text = ''
  for await (const part of stream.setEncoding('utf8')) text += part
  assert.equal(text, 'one two three')
  await stop()
})

test('HTTP/2: a body that does not come keeps nobody waiting, and is given up', async () => {
  const { begin, put, stop } = await guarded({ wait: 600_000, limit: 600_000 }, async (request, response) => {
    for await (const _ of request);
    response.end()
  })
  const slow = begin(1)
  slow.write('a part')
  assert.equal((await put(2)).status, 200)
  slow.close()
  await stop()
  const impatient = await guarded({ wait: 50 }, (_, response) => response.end())
  const late = impatient.begin(1)
  late.write('a part')
  const [headers] = (await once(late, 'response')) as [Record<string, unknown>]
  assert.equal(headers[':status'], 408)
  late.close()
  await impatient.stop()
})

test('HTTP/2: a longer body than is taken is refused before it is read to its end', async () => {
  const { begin, put, stop } = await guarded({ maxBody: 1000 }, (_, response) => response.end())
  const warnings: string[] = []
  const listen = (warning: Error) => warnings.push(warning.message)
  process.on('warning', listen)
  const long = begin(1)
  long.write('x'.repeat(1001))
  const [headers] = (await once(long, 'response')) as [Record<string, unknown>]
  assert.equal(headers[':status'], 413)
  long.close()
  assert.equal((await put(1, '{}')).status, 200)
  await stop()
  process.off('warning', listen)
  assert.deepEqual(warnings, [])
})

test('HTTP/2: a client that has hung up before the guard is asked keeps nobody waiting', async () => {
  const handled: (number | undefined)[] = []
  const arrived = new EventEmitter()
  const { begin, put, stop } = await guarded(
    { wait: 600_000, limit: 600_000 },
    (request, response) => {
      handled.push(getFence(request)?.token)
      response.end()
    },
    async (request, response) => {
      if (!String(request.headers['holdfast-fence']).endsWith('=1')) return
      arrived.emit('first')
      await once(response, 'close')
    },
  )
  const first = once(arrived, 'first')
  const noticed = once(closed, 'close')
  const stream = begin(1)
  await first
  stream.close(8)
  await noticed
  assert.equal((await put(2)).status, 200)
  assert.deepEqual(handled, [2])
  await stop()
})

test('HTTP/2: a body that is cut off reaches no handler', async () => {
  const handled: (number | undefined)[] = []
  const { begin, put, stop } = await guarded({ wait: 600_000 }, (request, response) => {
    handled.push(getFence(request)?.token)
    response.end()
  })
  const stream = begin(1)
  const noticed = once(closed, 'close')
  await new Promise((sent) => stream.write('a part', sent))
  // Unlike close, does not end the body first.
  stream.destroy(new Error('hangs up'))
  await noticed
  assert.equal((await put(2)).status, 200)
  assert.deepEqual(handled, [2])
  await stop()
})

test('HTTP/2: a handler that never ends is cut off, and the next one is let in', async () => {
  const { begin, put, stop } = await guarded({ wait: 600_000, limit: 20 }, (request, response) => {
    if (getFence(request)?.token !== 1) response.end()
  })
  const stream = begin(1)
  stream.end()
  await once(stream, 'close')
  assert.equal((await put(2)).status, 200)
  await stop()
})

test('HTTP/2: a handler that streams its response to a client that hangs up is done', async () => {
  const { begin, put, stop } = await guarded({ wait: 600_000, limit: 600_000 }, (request, response) => {
    if (getFence(request)?.token !== 1) return response.end()
    const endless = new Readable({
      read() {
        this.push('part of it')
      },
    })
    return endless.pipe(response as never)
  })
  const stream = begin(1)
  stream.end()
  await once(stream, 'data')
  const noticed = once(closed, 'close')
  stream.close(8)
  await noticed
  assert.equal((await put(2)).status, 200)
  await stop()
})

after(leakCheck)
