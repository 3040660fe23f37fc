/** A web request acquires the lock, a worker does the work: the lease travels with the job, and only one worker gets it. */
import assert from 'node:assert/strict'
import { createLocks, LeaseLostError } from 'holdfast'
import { memory } from 'holdfast/memory'

const store = memory()
await using web = createLocks(store)
await using worker = createLocks(store)
const queue: { order: number; ticket: string }[] = []

const lease = await web.mutex('order:42').acquire()
const job = { order: 42, ticket: await web.export(lease) }
// Queues sometimes deliver twice.
queue.push(job, job)
console.log('the web process holds it no more:', lease.state)

for (const { order, ticket } of queue) {
  try {
    await using adopted = await worker.adopt(ticket)
    assert.equal(adopted.token, lease.token)
    console.log(`order ${order} is worked on, with the token of the request:`, adopted.isHeld)
  } catch (error) {
    if (!(error instanceof LeaseLostError)) throw error
    console.log(`order ${order} came twice: ${(error.cause as Error).message}`)
  }
}
