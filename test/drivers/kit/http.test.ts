// Requests over HTTP, against a server in a thread of its own.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { HttpHost } from '../../../src/drivers/kit/http.js'
import { leakCheck } from '../../support/leaks.js'
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

after(leakCheck)
