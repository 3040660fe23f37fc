import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import fc from 'fast-check'
import { deadline, systemClock } from '../../src/core/clock.js'
import { TimerQueue } from '../../src/core/timer-queue.js'
import { nextToken } from '../../src/core/token.js'
import { fakeClock } from '../support/fake-clock.js'
import { leakCheck } from '../support/leaks.js'

after(leakCheck)

test('a timer never fires before its moment', async () => {
  const clock = systemClock()
  for (const delay of [0, 0.2, 1, 3.7, 12]) {
    const at = clock.now() + delay
    await new Promise<void>((resolve) => void clock.at(at, resolve))
    assert.ok(clock.now() >= at)
  }
})

test('a moment further away than a timer can count does not fire at once', async () => {
  const clock = systemClock()
  const cancel = clock.at(clock.now() + 2 ** 40, () => assert.fail('fired'))
  await new Promise<void>((resolve) => void clock.at(clock.now() + 20, resolve))
  cancel()
})

test('sleep of the machine moves the clock forward by what was slept, once', async () => {
  const aMoment = () => new Promise<void>((resolve) => void clock.at(clock.now() + 1, resolve))
  let asleep = 0
  const clock = systemClock(
    () => performance.now() + 5_000 + asleep,
    () => performance.now() + 1_700_000_000_000 + asleep,
  )
  await aMoment()
  assert.equal(clock.noticeSleep(), 0)
  asleep = 60_000
  await aMoment()
  const before = clock.now()
  const noticed = clock.noticeSleep()
  assert.ok(Math.abs(noticed - 60_000) < 100, `noticed ${noticed}`)
  assert.ok(clock.now() - before >= 59_900)
  await aMoment()
  assert.equal(clock.noticeSleep(), 0)
})

test('sleep is noticed within 20 ms when the wall clock was set back by just as much', async () => {
  let asleep = 0
  const clock = systemClock(
    () => performance.now() + 5_000 + asleep,
    () => performance.now() + 1_700_000_000_000,
  )
  const later = () => new Promise<void>((resolve) => void clock.at(clock.now() + 20, resolve))
  await later()
  assert.equal(clock.noticeSleep(), 0)
  asleep = 60_000
  await later()
  assert.ok(clock.noticeSleep() >= 59_900)
})

test('the boot clock is not read at every look, but once the wall clock jumps', async () => {
  let read = 0
  let set = 0
  const clock = systemClock(
    () => {
      read++
      return performance.now() + 5_000
    },
    () => performance.now() + 1_700_000_000_000 + set,
  )
  // It was read once at the beginning.
  const began = performance.now()
  while (performance.now() - began < 100) assert.equal(clock.noticeSleep(), 0)
  assert.ok(read <= 1 + (performance.now() - began) / 20, `read ${read} times`)
  for (const jump of [3_600_000, -3_600_000]) {
    const before = read
    set += jump
    const jumped = performance.now()
    while (performance.now() - jumped < 2);
    assert.equal(clock.noticeSleep(), 0)
    assert.ok(read > before, `after a jump of ${jump} ms`)
  }
})

test('a thread that is set aside between the two readings takes that for nothing', async () => {
  let aside = false
  const clock = systemClock(() => {
    const end = performance.now() + (aside ? 300 : 0)
    while (performance.now() < end);
    return performance.now() + 5_000
  })
  aside = true
  for (let i = 0; i < 3; i++) {
    await new Promise<void>((resolve) => void clock.at(clock.now() + 1, resolve))
    assert.equal(clock.noticeSleep(), 0)
  }
  aside = false
  await new Promise<void>((resolve) => void clock.at(clock.now() + 1, resolve))
  assert.equal(clock.noticeSleep(), 0, 'and nothing is left of it')
})

test('the coarse steps of the boot clock are not mistaken for sleep', () => {
  const clock = systemClock(() => Math.floor(performance.now() / 10) * 10 + 77_777)
  const end = performance.now() + 50
  while (performance.now() < end) assert.equal(clock.noticeSleep(), 0)
})

test('the deadline is never later than what the store keeps, whatever the drift up to 1 %', () => {
  fc.assert(
    fc.property(
      fc.double({ min: 0, max: 1e9, noNaN: true }),
      fc.integer({ min: 10, max: 86_400_000 }),
      fc.double({ min: -0.0099, max: 0.0099, noNaN: true }),
      (sent, ttl, drift) => {
        // The store counts ttl on a clock that runs faster by `drift`: in our time it lets go at the earliest here.
        const storeEnd = sent + ttl / (1 + Math.abs(drift))
        assert.ok(deadline(sent, ttl) <= storeEnd)
      },
    ),
  )
})

test('tokens grow whatever the wall clock of the store does, and are safe integers', () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 0, max: 4_102_444_800_000 })), (walls) => {
      let last = 0
      for (const wall of walls) {
        const token = nextToken(last, wall)
        assert.ok(token > last && Number.isSafeInteger(token))
        last = token
      }
    }),
  )
})

test('a counter that was lost starts above every token given before, by the clock', () => {
  const before = nextToken(0, 1_700_000_000_000)
  assert.ok(nextToken(0, 1_700_000_000_001) > before)
})

test('the timetable calls every entry once, in order, never early, with one timer armed', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(
        fc.record({
          at: fc.integer({ min: 0, max: 500 }),
          moveTo: fc.option(fc.integer({ min: 0, max: 500 })),
          drop: fc.boolean(),
        }),
        { maxLength: 60 },
      ),
      async (plans) => {
        const clock = fakeClock(0)
        const table = new TimerQueue(clock)
        const called: number[] = []
        const expected: number[] = []
        for (const { at, moveTo, drop } of plans) {
          const due = moveTo ?? at
          const entry = { slot: undefined, onDue: (now: number) => called.push(due) && assert.ok(now >= due) }
          table.set(entry, at)
          if (moveTo !== null) table.set(entry, moveTo)
          if (drop) table.remove(entry)
          else expected.push(due)
          assert.ok(clock.pending <= 1)
        }
        await clock.advance(600)
        assert.deepEqual(
          called,
          expected.sort((a, b) => a - b),
        )
        assert.equal(table.size, 0)
        assert.equal(clock.pending, 0)
      },
    ),
    { numRuns: 30 },
  )
})

test('timers due together yield to the event loop: ten thousand renewals do not delay the replies', async () => {
  const clock = systemClock()
  const table = new TimerQueue(clock)
  let called = 0
  const busy = () => {
    called++
    for (const until = performance.now() + 0.5; performance.now() < until; );
  }
  const at = clock.now() + 20
  const entries = Array.from({ length: 200 }, () => ({ slot: undefined, onDue: busy }))
  for (const entry of entries) table.set(entry, at)
  // One of them is taken out by another, which must not come back.
  const [, second] = entries
  assert.ok(second)
  const first = entries[0]
  assert.ok(first)
  first.onDue = () => {
    busy()
    table.remove(second)
  }
  const calledAtTurn: number[] = []
  while (called < 199) {
    await new Promise(setImmediate)
    calledAtTurn.push(called)
  }
  const most = Math.max(...calledAtTurn.map((n, i) => n - (calledAtTurn[i - 1] ?? 0)))
  assert.ok(most <= 11, `${most} of half a millisecond in one go`)
  await new Promise((resolve) => setTimeout(resolve, 20))
  assert.deepEqual([called, table.size, table.slots], [199, 0, 0])
})
