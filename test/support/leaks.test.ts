import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, createServer } from 'node:net'
import { after, test } from 'node:test'
import { promisify } from 'node:util'
import { Worker } from 'node:worker_threads'
import { leakCheck, leaks, settled } from './leaks.js'

/** The check must fail while the leak is there, with a message that matches, and pass once it is gone. */
async function caught(message: RegExp, undo: () => unknown): Promise<void> {
  await assert.rejects(settled(100), message)
  await undo()
  await settled()
}

test('a leaked timer is caught, with the place that made it', async () => {
  const timer = setTimeout(() => {}, 60_000)
  await caught(/a timer, made\n.*leaks\.test/, () => clearTimeout(timer))
})

test('a leaked timer is caught even though it would let the process end', async () => {
  const timer = setInterval(() => {}, 60_000).unref()
  await caught(/a timer, made\n.*leaks\.test/, () => clearInterval(timer))
})

test('a leaked socket is caught on both ends, referenced or not', async () => {
  const server = createServer().listen(0, '127.0.0.1').unref()
  await once(server, 'listening')
  const address = server.address()
  assert.ok(typeof address === 'object' && address)
  const socket = connect(address.port, '127.0.0.1').unref()
  await once(socket, 'connect')
  await caught(/a socket, made\n.*leaks\.test/, async () => {
    socket.destroy()
    server.close()
    await once(server, 'close')
  })
})

test('a leaked server is caught', async () => {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  await caught(/1 × TCPServerWrap/, async () => {
    server.close()
    await once(server, 'close')
  })
})

test('a leaked worker thread is caught', async () => {
  const worker = new Worker('setInterval(() => {}, 1000)', { eval: true })
  await once(worker, 'online')
  worker.unref()
  await caught(/a worker, made\n.*leaks\.test/, () => worker.terminate())
})

test('a timer that has fired, was cleared, or is awaited is not a leak', async () => {
  await promisify(setTimeout)(1)
  await new Promise((resolve) => setTimeout(resolve, 1))
  clearTimeout(setTimeout(() => {}, 60_000))
  assert.deepEqual(leaks(), [])
})

after(leakCheck)
