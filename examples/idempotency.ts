/**
 * An order that is sent twice is executed once: middleware for Express and Hono by the request's Idempotency-Key, over `locks.once`. The
 * second request waits for the first and gets its response, even on another host or a day later. Two servers of each kind
 * represent several hosts.
 *
 * Long because both frameworks are shown whole.
 */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import express, { type NextFunction, type Request, type Response } from 'express'
import { AcquireTimeoutError, createLocks, HoldfastError, type Locks } from 'holdfast'
import { local } from 'holdfast/local'
import { Hono, type MiddlewareHandler } from 'hono'

type Once = Pick<Locks, 'once'>
/** The part of a response that is kept. Server errors are not kept, so that a retry runs the order again. */
interface Answer {
  readonly status: number
  readonly body: string
  /** Seconds until the client may try again. */
  readonly retryAfter?: string
}

const keep = 24 * 3_600_000
/** An empty key counts as missing: it would be the same for all requests of a client that sets the header without a value. */
const missing = { status: 400, body: '{"error":"send an Idempotency-Key"}' }
/** The response to the first request would tell the client that this one was executed. */
const reused = { status: 422, body: '{"error":"this Idempotency-Key came with another body before"}' }

/**
 * The key includes the sender and the request: otherwise one customer could read the response to another customer's request, or get
 * the response to a different request of their own. As JSON no two lists look alike; hashed, no list is too long.
 */
const keyOf = (...parts: readonly string[]) => `request:${hash(JSON.stringify(parts))}`
const hash = (text: string) => createHash('sha256').update(text).digest('hex')

/** The most bytes of a response, as JSON, that fit into a cell. */
const longest = 64_000
/** Kept in place of a longer response: `once` would reject it after the order was executed, and a retry would execute it again. */
const tooLong = '{"error":"done, but its answer was too long to be kept"}'

class Failed extends Error {
  readonly answer: Answer
  constructor(answer: Answer) {
    super(`not kept: ${answer.status}`)
    this.answer = answer
  }
}

/** Once for a key, unless it fails. */
async function answerOnce(
  locks: Once,
  key: string,
  content: string,
  handle: () => Promise<Answer>,
): Promise<Answer> {
  const asked = hash(content)
  let own: Answer | undefined
  const run = async () => {
    const answer = await handle()
    if (answer.status >= 500) throw new Failed(answer)
    own = answer
    const fits = Buffer.byteLength(JSON.stringify(answer)) <= longest
    return { status: answer.status, body: fits ? answer.body : tooLong, asked }
  }
  try {
    const kept = await locks.once(key, run, { keep, keepError: 0 })
    return own ?? (kept.asked === asked ? kept : reused)
  } catch (error) {
    // Executed, but the store could not keep it: a client that is told of an error would send it again.
    if (own !== undefined) return own
    if (error instanceof Failed) return error.answer
    if (!(error instanceof HoldfastError)) throw error
    const [status, retryAfter] = error instanceof AcquireTimeoutError ? [409, '1'] : [503, '5']
    return { status, retryAfter, body: JSON.stringify({ error: error.publicMessage }) }
  }
}

/** `app.post('/orders', express.json(), idempotent(locks, handler))` in Express. */
function idempotent(locks: Once, handle: (request: Request) => Promise<Answer>) {
  return async (request: Request, response: Response, next: NextFunction): Promise<void> => {
    try {
      const key = request.get('idempotency-key')
      const customer = request.get('x-customer') ?? 'nobody'
      const { status, body, retryAfter }: Answer = !key
        ? missing
        : await answerOnce(
            locks,
            keyOf(customer, request.method, request.originalUrl, key),
            JSON.stringify(request.body ?? null),
            () => handle(request),
          )
      if (retryAfter !== undefined) response.set('retry-after', retryAfter)
      response.status(status).type('json').send(body)
    } catch (error) {
      next(error)
    }
  }
}

/** `app.post('/orders', idempotentHono(locks), handler)` in Hono. */
function idempotentHono(locks: Once): MiddlewareHandler {
  return async (c, next) => {
    const key = c.req.header('idempotency-key')
    if (!key) return c.body(missing.body, 400)
    // Without the host: the same request under another host name is still the same request.
    const { pathname, search } = new URL(c.req.url)
    const { status, body, retryAfter } = await answerOnce(
      locks,
      keyOf(c.req.header('x-customer') ?? 'nobody', c.req.method, pathname + search, key),
      await c.req.text(),
      async () => {
        await next()
        return { status: c.res.status, body: await c.res.text() }
      },
    )
    // The handler's response has been read in order to keep it, so each caller gets a new response.
    c.res = undefined
    c.res = new globalThis.Response(body, { status, headers: { 'content-type': 'application/json' } })
    if (retryAfter !== undefined) c.header('retry-after', retryAfter)
    return undefined
  }
}

const orders: string[] = []
async function makeOrder(item: string): Promise<Answer> {
  await new Promise((resolve) => setTimeout(resolve, 20))
  if (item === 'broken') return { status: 500, body: '{"error":"try again"}' }
  orders.push(item)
  const text = item === 'long' ? 'x'.repeat(100_000) : item
  return { status: 201, body: JSON.stringify({ order: orders.length, item: text }) }
}

const directory = await mkdtemp(join(tmpdir(), 'holdfast-example-'))
const locks = [createLocks(local({ directory })), createLocks(local({ directory }))] as const
const expressServers = locks.map((mine) =>
  createServer(
    express().post(
      '/:item',
      express.json(),
      idempotent(mine, (request) => makeOrder(String(request.params['item']))),
    ),
  ),
)
const honoApps = locks.map((mine) =>
  new Hono().post('/:item', idempotentHono(mine), async (c) => {
    const { status, body } = await makeOrder(c.req.param('item'))
    return c.body(body, status as 201)
  }),
)
const ports = await Promise.all(
  expressServers.map(async (server) => {
    await once(server.listen(0, '127.0.0.1'), 'listening')
    return (server.address() as AddressInfo).port
  }),
)

const headersOf = (key?: string) => ({
  'x-customer': 'ada',
  'content-type': 'application/json',
  connection: 'close',
  ...(key !== undefined && { 'idempotency-key': key }),
})
const toExpress = (host: 0 | 1, item: string, key?: string, body = '{}') =>
  fetch(`http://127.0.0.1:${ports[host]}/${item}`, { method: 'POST', headers: headersOf(key), body })
const toHono = async (host: 0 | 1, item: string, key?: string, body = '{}') =>
  (honoApps[host] as Hono).request(`http://host${host}.example/${item}`, {
    method: 'POST',
    headers: headersOf(key),
    body,
  })

for (const [send, item] of [
  [toExpress, 'tea'],
  [toHono, 'cake'],
] as const) {
  const answers = await Promise.all([
    send(0, item, item),
    send(1, item, item),
    send(0, item, item),
    send(1, item, item),
  ])
  const bodies = new Set(await Promise.all(answers.map((answer) => answer.text())))
  assert.deepEqual([...bodies], [`{"order":${orders.length},"item":"${item}"}`])
  assert.equal((await send(1, item, item, '{"gift":true}')).status, 422)
  assert.equal((await send(1, item)).status, 400)
  assert.equal((await send(1, item, '')).status, 400)
  assert.equal((await send(0, 'broken', `${item} broken`)).status, 500)
  assert.equal((await send(1, item, `${item} broken`)).status, 201)
  assert.ok((await (await send(0, 'long', `${item} long`)).text()).length > 100_000)
  assert.equal(await (await send(1, 'long', `${item} long`)).text(), tooLong)
}
assert.deepEqual(orders, ['tea', 'tea', 'long', 'cake', 'cake', 'long'])
assert.notEqual(keyOf('ada:b', 'c'), keyOf('ada', 'b:c')) // no customer's name yields another customer's key
console.log(`requests sent several times to two hosts, one order for each key: ${orders.join(', ')}`)

for (const server of expressServers) server.close()
for (const mine of locks) await mine.close()
await rm(directory, { recursive: true })
