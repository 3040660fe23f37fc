// Requests over HTTP, against a server in a thread of its own.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { systemClock } from '../../../src/core/clock.js'
import { HttpHost } from '../../../src/drivers/kit/http.js'
import { leakCheck } from '../../support/leaks.js'
import { checkout } from '../../support/servers/places.js'
import { answering } from '../support/standing-still.js'

const server = `
  listen(require('node:http').createServer((request, response) => arrived((then) => response.end('answered', then))))`

test('a reply that arrived while the event loop was blocked is read before its request is given up', async (t) => {
  const { port, clock, answerOne, standStill, stop } = await answering(server)
  const host = new HttpHost(new URL(`http://127.0.0.1:${port}`), clock, undefined)
  t.after(() => {
    host.close()
    return stop()
  })
  const send = () => host.send({ method: 'GET', path: '/' }, 200)
  answerOne()
  await send()
  const asked = send()
  await standStill()
  assert.equal((await asked).text, 'answered')
})

test('a request that was given up for the certificate of the server was not sent', async () => {
  const [cert, key] = ['cert.pem', 'key.pem'].map((name) =>
    readFileSync(join(checkout, 'test/support/tls', name)),
  )
  const arrived: (string | undefined)[] = []
  const server = createServer({ cert, key }, (request, response) => {
    arrived.push(request.url)
    response.end()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const url = new URL(`https://127.0.0.1:${(server.address() as AddressInfo).port}`)
  const clock = systemClock()
  for (const [path, tls, message] of [
    ['/strange', {}, /self[- ]signed certificate/],
    ['/elsewhere', { ca: cert, servername: 'elsewhere.example' }, /elsewhere\.example/],
  ] as const) {
    const host = new HttpHost(url, clock, tls)
    await assert.rejects(host.send({ method: 'PUT', path, body: 'secret' }, 60_000), {
      message,
      wasSent: false,
    })
    host.close()
  }
  const known = new HttpHost(url, clock, { ca: cert })
  assert.equal((await known.send({ method: 'PUT', path: '/known' }, 60_000)).status, 200)
  known.close()
  assert.deepEqual(arrived, ['/known'])
  server.close()
  await once(server, 'close')
})

after(leakCheck)
