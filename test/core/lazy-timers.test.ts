// A request answered within moments sets no timer; a longer wait gets its timer in time.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { BackendError } from 'holdfast'
import { settle } from '../support/fake-clock.js'
import { leakCheck } from '../support/leaks.js'
import { type Script, script } from '../support/scripted-driver.js'

after(leakCheck)

/** A script in which the test decides when the moment of `shortly` is over. */
function moments(): { readonly s: Script; readonly pass: () => void; readonly asked: () => number } {
  const s = script()
  const coming = new Set<() => void>()
  let asked = 0
  s.clock.shortly = (fn) => {
    asked++
    coming.add(fn)
    return () => void coming.delete(fn)
  }
  const pass = () => {
    const all = [...coming]
    coming.clear()
    for (const fn of all) fn()
  }
  return { s, pass, asked: () => asked }
}

test('acquires and releases that are answered within moments set no timers, and wake the process once', async () => {
  const { s, pass, asked } = moments()
  for (let i = 0; i < 200; i++) {
    const acquiring = s.locks.mutex('m').acquire()
    await settle()
    assert.equal(s.clock.pending, 0)
    s.asked.pop()!.grant()
    await (await acquiring).release()
    assert.equal(s.clock.pending, 0)
  }
  assert.equal(asked(), 1)
  pass()
  assert.equal(s.clock.pending, 0)
  await s.locks.close()
})

test('a longer wait gets its timer after those moments', async () => {
  const { s, pass } = moments()
  const refused = assert.rejects(s.locks.mutex('m').acquire({ wait: 5_000 }), BackendError)
  await settle()
  pass()
  assert.equal(s.clock.pending, 1)
  await s.clock.advance(5_000)
  await refused
  assert.equal(s.clock.pending, 0)
  s.asked[0]!.nothing()
  await settle()
  await s.locks.close()
})

test('neither an abort nor the end of a short wait is delayed by that', async () => {
  const { s } = moments()
  const controller = new AbortController()
  const aborted = assert.rejects(s.locks.mutex('m').acquire({ signal: controller.signal }), { message: 'no' })
  const ended = assert.rejects(s.locks.mutex('n').acquire({ wait: 50 }), BackendError)
  await settle()
  controller.abort(new Error('no'))
  await aborted
  await s.clock.advance(50)
  await ended
  for (const asked of s.asked) asked.nothing()
  await settle()
  await s.locks.close()
})

test('a release without a reply ends in time', async () => {
  const { s, pass } = moments()
  const acquiring = s.locks.mutex('m').acquire({ ttl: 6_000 })
  s.asked[0]!.grant()
  const lease = await acquiring
  s.onRelease = () => new Promise(() => undefined)
  const released = lease.release()
  await settle()
  s.clock.stall(20)
  pass()
  await s.clock.advance(980)
  assert.equal(await released, 'unknown')
  // It is repeated in the background.
  s.onRelease = async () => 'released'
  await s.locks.close()
  assert.equal(s.clock.pending, 0)
})

test('closing leaves no timer behind', async () => {
  const { s, asked, pass } = moments()
  const refused = assert.rejects(s.locks.mutex('m').acquire(), BackendError)
  await settle()
  assert.equal(asked(), 1)
  const closed = s.locks.close()
  s.asked[0]!.nothing()
  await closed
  await refused
  pass()
  assert.equal(s.clock.pending, 0)
})
