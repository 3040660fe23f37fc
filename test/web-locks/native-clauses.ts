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

test('2.5 Termination of locks: when a thread ends, the next in line is called back (native)', {
  timeout: 10_000,
}, async () => {
  const text = `
    const { parentPort } = require('node:worker_threads')
    navigator.locks.request('of the dead', () => {
      parentPort.postMessage('held')
      return new Promise(() => setInterval(() => undefined, 1000))
    })`
  const worker = new Worker(text, { eval: true })
  await once(worker, 'message')
  assert.equal(await locks.request('of the dead', { ifAvailable: true }, (lock) => lock), null)
  const next = locks.request('of the dead', () => 'granted')
  await worker.terminate()
  assert.equal(await next, 'granted')
})
