/**
 * Why a lease has a token. A holder that stops for longer than its ttl wakes up and writes, although somebody else holds
 * the lock by now. The lock cannot prevent that; the resource can, by refusing tokens older than the newest it has seen.
 */
import assert from 'node:assert/strict'
import { createLocks, StaleTokenError } from 'holdfast'
import { memory } from 'holdfast/memory'

/** Represents a table row with a fence column: check and write are one step. */
const row = { value: '', fence: 0 }
function write(value: string, token: number): void {
  if (token < row.fence) throw new StaleTokenError('invoice:7', token, row.fence)
  Object.assign(row, { value, fence: token })
}

const store = memory()
await using sleepy = createLocks(store, { ttl: 100 })
await using other = createLocks(store)

const old = await sleepy.mutex('invoice:7').acquire()
const wakeUp = performance.now() + 300
while (performance.now() < wakeUp); // the event loop is paused: no timer, no renewal, no abort event

const next = await other.mutex('invoice:7').acquire()
write('written by the new holder', next.token)

assert.equal(old.isHeld, false) // the synchronous check knows, although no event has been delivered yet
assert.throws(() => write('written by the old holder', old.token), StaleTokenError) // and a holder that does not check is refused
assert.equal(row.value, 'written by the new holder')
console.log(`token ${old.token} was refused after ${next.token}`)
await next.release()
