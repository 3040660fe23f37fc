// When a push is believed, and when to look again: what Redis and PostgreSQL share of a waiter, without a server.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import fc from 'fast-check'
import { nextLook, provenUntil } from '../../../src/drivers/kit/push.js'
import { leakCheck } from '../../support/leaks.js'

test('a push is never believed for longer than the server lets the claim live, however late it is', () => {
  // The server read its clock between `sent` and `sent + up`, granted `age` later, and its clock runs up to 0.5 % off ours.
  const delays = fc.double({ min: 0, max: 200, noNaN: true })
  fc.assert(
    fc.property(
      delays,
      delays,
      fc.double({ min: 0, max: 10_000, noNaN: true }),
      fc.double({ min: 50, max: 5_000, noNaN: true }),
      fc.double({ min: 0.995, max: 1.005, noNaN: true }),
      (up, down, waited, claim, rate) => {
        const sent = 1_000
        const read = sent + up
        const granted = read + waited
        const age = waited * rate
        const until = provenUntil(sent, age, claim, granted + down)
        if (until === undefined) return
        assert.ok(until <= granted + claim / rate, 'believed after the server may have let go')
      },
    ),
    { numRuns: 5_000 },
  )
})

test('a push is believed when nothing odd has happened', () => {
  fc.assert(
    fc.property(
      fc.double({ min: 0, max: 5, noNaN: true }),
      fc.double({ min: 0, max: 5, noNaN: true }),
      fc.double({ min: 0, max: 6_000, noNaN: true }),
      (up, down, waited) => {
        assert.notEqual(provenUntil(1_000, waited, 1_000, 1_000 + up + waited + down), undefined)
      },
    ),
  )
})

test('a push is believed until the claim ends, counted from the request it answers, less the margin', () => {
  // Asked at 1000, granted 200 ms later by the server, heard at 1205.
  const until = provenUntil(1_000, 200, 1_000, 1_205)
  assert.ok(until !== undefined && until < 2_200 && until > 2_150)
})

test('a push is not believed when the clock was set forward, or it is late, or hardly anything is left', () => {
  assert.equal(provenUntil(0, 20_100, 1_000, 101), undefined)
  assert.equal(provenUntil(0, 100, 1_000, 160), undefined)
  assert.equal(provenUntil(0, 100, 60, 150), undefined)
})

test('looking again: the first in line when the hold runs out, the others later, nobody less than every six seconds', () => {
  assert.equal(nextLook(1, 200, true, 0, 0.5), 205)
  assert.equal(nextLook(3, 200, true, 0, 0.5), 405)
  assert.equal(nextLook(1, 600_000, true, 0, 0.5), 5_000)
  assert.ok(nextLook(500, 600_000, true, 0, 0.999) <= 6_000)
  assert.deepEqual(
    [0, 1, 2, 3, 4, 9].map((polls) => nextLook(1, 600_000, false, polls, 0.5)),
    [5, 10, 20, 50, 100, 100],
  )
  assert.equal(nextLook(2, 600_000, false, 9, 0.5), 100)
  assert.equal(nextLook(99, 600_000, false, 9, 0.5), 300)
})

after(leakCheck)
