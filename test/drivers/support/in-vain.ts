// A wait that is ended by what the store says, and by nothing else: however long the machine is paused, it is not over before.
import assert from 'node:assert/strict'
import type { Lock, Locks } from '../../../src/index.js'
import { until } from '../../support/until.js'

/** Waits for the lock without a deadline, and aborts once the waiter learns of this trouble. It gets no lock and no other error meanwhile. */
export async function waitsInVain(locks: Pick<Locks, 'on'>, lock: Lock, trouble: RegExp): Promise<void> {
  const told: string[] = []
  const off = locks.on('waiting', ({ blocked }) => told.push(blocked.error?.message ?? ''))
  const enough = new AbortController()
  const waits = lock.acquire({ wait: Number.POSITIVE_INFINITY, signal: enough.signal })
  const ended = assert.rejects(waits, { message: 'enough' })
  const heard = () => told.some((one) => trouble.test(one))
  const what = `the waiter to be told ${trouble}`
  try {
    await Promise.race([ended, until(heard, { within: 60_000, what })])
    assert.ok(heard())
  } finally {
    off()
    enough.abort(new Error('enough'))
  }
  await ended
}
