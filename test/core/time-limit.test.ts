import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { TimeLimit, type TimeLimitOptions } from '../../src/core/time-limit.js'
import { fakeClock, settle } from '../support/fake-clock.js'
import { leakCheck } from '../support/leaks.js'

after(leakCheck)

/** A limit of 100 ms, and when it ended: ms after it began. */
function limit(options?: TimeLimitOptions) {
  const clock = fakeClock()
  const began = clock.now()
  const ended: number[] = []
  const one = new TimeLimit(clock, 100, () => ended.push(clock.now() - began), options).armSoon()
  return { clock, one, began, ended }
}

test('a limit ends once its time is over', async () => {
  const { clock, ended } = limit()
  await clock.advance(99)
  assert.deepEqual(ended, [])
  await clock.advance(1)
  assert.deepEqual(ended, [100])
  await clock.advance(1_000)
  assert.deepEqual(ended, [100])
})

test('what has arrived is read first: a limit that is stopped then does not end', async () => {
  const clock = fakeClock()
  const soon: (() => void)[] = []
  let ended = 0
  const one = new TimeLimit({ ...clock, soon: (fn) => void soon.push(fn) }, 100, () => ended++).armSoon()
  soon.shift()?.()
  await clock.advance(100)
  assert.deepEqual([soon.length, ended], [1, 0])
  one.stop()
  soon.shift()?.()
  assert.equal(ended, 0)
})

for (const [stall, end] of [
  [130, 160],
  [500, 600],
] as const)
  test(`a stall until ${stall} ms prolongs it until ${end} ms, once`, async () => {
    const { clock, one, began, ended } = limit()
    await settle()
    clock.stall(stall)
    await clock.advance(0)
    assert.equal(one.end - began, end)
    clock.stall(1_000)
    await clock.advance(0)
    assert.deepEqual(ended, [stall + 1_000])
  })

for (const stall of [80, 99, 100, 120])
  test(`after a stall until ${stall} ms there is still time for another request`, async () => {
    const { clock, one, began, ended } = limit()
    await settle()
    clock.stall(stall)
    await clock.advance(0)
    assert.equal(one.end - began, stall + 25)
    await clock.advance(24)
    assert.deepEqual(ended, [])
    await clock.advance(1)
    assert.deepEqual(ended, [stall + 25])
  })

test('stalls again and again end it in bounded time', async () => {
  const { clock, ended } = limit()
  await settle()
  for (let n = 0; n < 100 && ended.length === 0; n++) {
    clock.stall(40)
    await clock.advance(10)
  }
  assert.ok((ended[0] ?? Number.POSITIVE_INFINITY) <= 350, `${ended}`)
})

test('it is not prolonged past the moment at which its result is of no use', async () => {
  const { clock, ended } = limit({ until: 1_000_120 })
  await settle()
  clock.stall(110)
  await clock.advance(9)
  assert.deepEqual(ended, [])
  await clock.advance(1)
  assert.deepEqual(ended, [120])
})

test('it begins again if it is over before the event loop has turned once', async () => {
  const { clock, ended } = limit()
  clock.stall(150)
  await clock.advance(99)
  assert.deepEqual(ended, [])
  await clock.advance(1)
  assert.deepEqual(ended, [250])
})

test('a limit that is stopped never ends', async () => {
  const { clock, one, ended } = limit()
  one.stop()
  await clock.advance(1_000)
  assert.equal(clock.pending, 0)
  assert.deepEqual(ended, [])
})
