// Requests over HTTP, against a server in a thread of its own.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { after, test } from 'node:test'
import { Worker } from 'node:worker_threads'
import { systemEnv } from '../../../src/core/engine.js'
import { HttpHost } from '../../../src/drivers/kit/http.js'
import { leakCheck } from '../../support/leaks.js'

/** Counts the answers that it has handed to the system. */
const server = `
  const { workerData, parentPort } = require('node:worker_threads')
  const answers = new Int32Array(workerData)
  const server = require('node:http').createServer((request, response) => {
    response.end('answered', () => {
      Atomics.add(answers, 0, 1)
      Atomics.notify(answers, 0)
    })
  })
  server.listen(0, '127.0.0.1', () => parentPort.postMessage(server.address().port))`

test('an answer that arrived while the event loop stood still is read before its request is given up', async (t) => {
  const answers = new Int32Array(new SharedArrayBuffer(4))
  const thread = new Worker(server, { eval: true, workerData: answers.buffer })
  t.after(() => thread.terminate())
  const [port] = await once(thread, 'message')
  const host = new HttpHost(new URL(`http://127.0.0.1:${port}`), systemEnv().clock, undefined)
  t.after(() => host.close())
  const send = (timeout: number) => host.send({ method: 'GET', path: '/' }, timeout)
  await send(60_000)
  const timeout = 200
  const began = performance.now()
  const asked = send(timeout)
  // It leaves now, on the connection of the first.
  await new Promise(setImmediate)
  while (Atomics.load(answers, 0) < 2 || performance.now() < began + 2 * timeout)
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 20)
  assert.equal((await asked).text, 'answered')
})

after(leakCheck)
