// When to look again: what Redis and PostgreSQL share of a waiter, without a server.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { nextPollIn } from '../../../src/drivers/kit/push-schedule.js'
import { leakCheck } from '../../support/leaks.js'

test('polling: the first waiter when the hold expires, the others later, everybody at least every six seconds', () => {
  assert.equal(nextPollIn(1, 200, true, 0, 0.5), 205)
  assert.equal(nextPollIn(3, 200, true, 0, 0.5), 405)
  assert.equal(nextPollIn(1, 600_000, true, 0, 0.5), 5_000)
  assert.ok(nextPollIn(500, 600_000, true, 0, 0.999) <= 6_000)
  assert.deepEqual(
    [0, 1, 2, 3, 4, 9].map((polls) => nextPollIn(1, 600_000, false, polls, 0.5)),
    [5, 10, 20, 50, 100, 100],
  )
  assert.equal(nextPollIn(2, 600_000, false, 9, 0.5), 100)
  assert.equal(nextPollIn(99, 600_000, false, 9, 0.5), 300)
})

after(leakCheck)
