/**
 * An order that is sent twice is made once: middleware for Express and Hono by the request's Idempotency-Key, over `locks.once`. The
 * second one waits for the first and gets its answer, also on another host, also a day later. Two servers of each kind
 * stand for several hosts.
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
import { createLocks, type Locks } from 'holdfast'
import { local } from 'holdfast/local'
import { Hono, type MiddlewareHandler } from 'hono'

type Once = Pick<Locks, 'once'>
/** What is kept of an answer. An answer of the server's own fault is not kept: trying again is then what one wants. */
interface Answer {
  readonly status: number
  readonly body: string
}

const keep = 24 * 3_600_000
/** An empty key is none: it would be the same for all requests of a client that sets the header without a value. */
const missing = { status: 400, body: '{"error":"send an Idempotency-Key"}' }

/**
 * The key belongs to who sends it, and to what is asked: else one customer could ask for the answer to another one's request, or get
 * the answer to a request of their own about something else. As JSON no two lists are written alike; hashed, no list is too long.
 */
const keyOf = (...parts: readonly string[]) =>
  `request:${createHash('sha256').update(JSON.stringify(parts)).digest('hex')}`

/** Bytes of an answer, as JSON, that a cell has room for. */
const longest = 64_000
/** What is kept in place of a longer one: `once` would refuse it when the order is made already, and trying again would make another. */
const tooLong = '{"error":"done, but its answer was too long to be kept"}'

class Failed extends Error {
  readonly answer: Answer
  constructor(answer: Answer) {
    super(`not kept: ${answer.status}`)
    this.answer = answer
  }
}

/** Once for a key, unless it fails. */
async function answerOnce(locks: Once, key: string, handle: () => Promise<Answer>): Promise<Answer> {
  let own: Answer | undefined
  const run = async () => {
    const answer = await handle()
    if (answer.status >= 500) throw new Failed(answer)
    own = answer
    const fits = Buffer.byteLength(JSON.stringify(answer)) <= longest
    return fits ? answer : { status: answer.status, body: tooLong }
  }
  try {
    const kept = await locks.once(key, run, { keep, keepError: 0 })
    return own ?? kept
  } catch (error) {
    if (error instanceof Failed) return error.answer
    throw error
  }
}

/** `app.post('/orders', idempotent(locks, handler))` in Express. */
function idempotent(locks: Once, handle: (request: Request) => Promise<Answer>) {
  return async (request: Request, response: Response, next: NextFunction): Promise<void> => {
    try {
      const key = request.get('idempotency-key')
      const customer = request.get('x-customer') ?? 'nobody'
      const { status, body } = !key
        ? missing
        : await answerOnce(locks, keyOf(customer, request.method, request.originalUrl, key), () =>
            handle(request),
          )
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
    // Without the host: by what name a client reaches us makes no other request of it.
    const { pathname, search } = new URL(c.req.url)
    const { status, body } = await answerOnce(
      locks,
      keyOf(c.req.header('x-customer') ?? 'nobody', c.req.method, pathname + search, key),
      async () => {
        await next()
        return { status: c.res.status, body: await c.res.text() }
      },
    )
    // What the handler answered has been read for keeping; everybody gets an answer of their own.
    c.res = undefined
    c.res = new globalThis.Response(body, { status, headers: { 'content-type': 'application/json' } })
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
  connection: 'close',
  ...(key !== undefined && { 'idempotency-key': key }),
})
const toExpress = (host: 0 | 1, item: string, key?: string) =>
  fetch(`http://127.0.0.1:${ports[host]}/${item}`, { method: 'POST', headers: headersOf(key) })
const toHono = async (host: 0 | 1, item: string, key?: string) =>
  (honoApps[host] as Hono).request(`http://host${host}.example/${item}`, {
    method: 'POST',
    headers: headersOf(key),
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
  assert.equal((await send(1, item)).status, 400)
  assert.equal((await send(1, item, '')).status, 400)
  assert.equal((await send(0, 'broken', `${item} broken`)).status, 500)
  assert.equal((await send(1, item, `${item} broken`)).status, 201)
  assert.ok((await (await send(0, 'long', `${item} long`)).text()).length > 100_000)
  assert.equal(await (await send(1, 'long', `${item} long`)).text(), tooLong)
}
assert.deepEqual(orders, ['tea', 'tea', 'long', 'cake', 'cake', 'long'])
assert.notEqual(keyOf('ada:b', 'c'), keyOf('ada', 'b:c')) // no customer's name makes another one's key
console.log(`requests sent several times to two hosts, one order for each key: ${orders.join(', ')}`)

for (const server of expressServers) server.close()
for (const mine of locks) await mine.close()
await rm(directory, { recursive: true })
