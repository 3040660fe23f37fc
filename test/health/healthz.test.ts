import assert from 'node:assert/strict'
import { createServer, type RequestListener, type Server } from 'node:http'
import { after, test } from 'node:test'
import express from 'express'
import { createLocks } from 'holdfast'
import { fastifyHealthz, healthz, honoHealthz } from 'holdfast/health'
import { memory } from 'holdfast/memory'
import { redis } from 'holdfast/redis'
import { Hono } from 'hono'
import { Redis } from 'ioredis'
import { leakCheck } from '../support/leaks.js'
import { startRedis } from '../support/servers/redis.js'

after(leakCheck)

async function asked(listener: RequestListener, method = 'GET'): Promise<{ status: number; body: string }> {
  const server: Server = createServer(listener)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  try {
    const { port } = server.address() as { port: number }
    const response = await fetch(`http://127.0.0.1:${port}/healthz`, {
      method,
      headers: { connection: 'close' },
    })
    return { status: response.status, body: await response.text() }
  } finally {
    await new Promise((resolve) => server.close(resolve))
  }
}

test('node:http and Express answer 200 with a report', async () => {
  await using locks = createLocks(memory())
  const app = express().get('/healthz', healthz(locks))
  for (const listener of [healthz(locks), app] as RequestListener[]) {
    const { status, body } = await asked(listener)
    assert.equal(status, 200)
    const report = JSON.parse(body)
    assert.deepEqual(report, {
      ...{ status: 'ok', driver: 'memory', took: report.took },
      ...{ held: 0, doubtful: 0, waiting: 0 },
    })
  }
  assert.deepEqual(await asked(healthz(locks) as RequestListener, 'HEAD'), { status: 200, body: '' })
})

test('Hono gets a Response, Fastify a reply', async () => {
  await using locks = createLocks(memory())
  const response = await new Hono().get('/healthz', honoHealthz(locks)).request('/healthz')
  assert.equal(response.status, 200)
  assert.equal(response.headers.get('cache-control'), 'no-store')
  const sent: unknown[] = []
  const reply = {
    code: (status: number) => ({
      header: (...header: [string, string]) => ({ send: (body: unknown) => sent.push(status, header, body) }),
    }),
  }
  await fastifyHealthz(locks)({}, reply)
  assert.deepEqual(sent.slice(0, 2), [200, ['cache-control', 'no-store']])
  assert.equal((sent[2] as { status: string }).status, 'ok')
})

test('a store that is down is 503, without its address', async () => {
  const server = await startRedis()
  const client = new Redis(server.url, { retryStrategy: () => 50 })
  client.on('error', () => undefined)
  await using locks = createLocks(redis({ client, commandTimeout: 300 }))
  const handler = healthz(locks, { timeout: 500 }) as RequestListener
  assert.equal((await asked(handler)).status, 200)
  await server.stop()
  const { status, body } = await asked(handler)
  assert.equal(status, 503)
  assert.equal(JSON.parse(body).status, 'unavailable')
  assert.equal(JSON.parse(body).error, 'the store of the locks cannot be used at present')
  assert.ok(!body.includes('127.0.0.1') && !body.includes(String(server.port)), body)
  await locks.close()
  client.disconnect()
})
