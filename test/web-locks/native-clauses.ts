// Run by a Node that has a `navigator.locks` of its own: the same clauses, about that one. See `native.test.ts`.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { after, test } from 'node:test'
import { Worker } from 'node:worker_threads'
import type { LockManager } from 'holdfast/web-locks'
import { clauses } from './clauses.js'

const { locks } = (globalThis as unknown as { navigator: { locks: LockManager } }).navigator

let id = ''
await locks.request('who am I', async () => {
  id = (await locks.query()).held[0]?.clientId ?? ''
})

const alive = setInterval(() => undefined, 1_000)
after(() => clearInterval(alive))

// One thread has one client; `one` and `two` are the same. The limit ends those that hang.
clauses('native', () => ({ manager: () => locks, idOf: () => id }), 10_000)

// Now and then something else in the process runs the queue after the thread has gone, and the waiter is called back: one
// waiter that is never called back is enough to fail, so several threads end, one after the other.
test('2.5 Termination of locks: when a thread ends, the next in the queue is called back (native)', {
  timeout: 10_000,
}, async () => {
  for (const name of ['first of the dead', 'second', 'third', 'fourth', 'fifth']) {
    const worker = new Worker(
      `
      const { parentPort, workerData: name } = require('node:worker_threads')
      navigator.locks.request(name, () => {
        parentPort.postMessage('held')
        return new Promise(() => setInterval(() => undefined, 1000))
      })`,
      { eval: true, workerData: name },
    )
    await once(worker, 'message')
    assert.equal(await locks.request(name, { ifAvailable: true }, (lock) => lock), null)
    const next = locks.request(name, () => 'granted')
    await worker.terminate()
    assert.equal(await next, 'granted')
  }
})
