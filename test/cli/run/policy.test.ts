import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import fc from 'fast-check'
import { CliError } from '../../../src/cli/exit.js'
import { deadmanAt, decide, limitsWithin, minTtl, resolveLimits } from '../../../src/cli/run/policy.js'
import { leakCheck } from '../../support/leaks.js'

const none = { ttl: undefined, killAfter: undefined, minHold: undefined, maxHold: undefined }
const usual = resolveLimits(none)

test('a lease with plenty of time ends nothing', () => {
  const { signal, again } = decide(usual, { remaining: 20_000, held: 5, stopping: undefined })
  assert.equal(signal, undefined)
  assert.equal(again, 20_000 - usual.killAfter - usual.margin)
})

test('TERM comes while there is still time for KILL before the lease is over', () => {
  const remaining = usual.killAfter + usual.margin
  assert.deepEqual(decide(usual, { remaining, held: 5, stopping: undefined }), {
    signal: 'SIGTERM',
    why: 'lost',
    again: 0,
  })
})

test('KILL comes --kill-after later, and never later than the margin before the end of the lease', () => {
  assert.equal(decide(usual, { remaining: 4000, held: 0, stopping: usual.killAfter - 1 }).signal, undefined)
  assert.equal(decide(usual, { remaining: 4000, held: 0, stopping: usual.killAfter }).signal, 'SIGKILL')
  assert.equal(decide(usual, { remaining: usual.margin, held: 0, stopping: 1 }).signal, 'SIGKILL')
})

test('a lease that is lost for certain is a KILL at once', () => {
  assert.deepEqual(decide(usual, { remaining: 0, held: 0, stopping: undefined }), {
    signal: 'SIGKILL',
    why: 'lost',
    again: 0,
  })
})

test('--max-hold is a TERM, then a KILL, also with a healthy lease', () => {
  const terms = resolveLimits({ ...none, maxHold: 60_000 })
  assert.equal(decide(terms, { remaining: 20_000, held: 59_999, stopping: undefined }).again, 1)
  assert.deepEqual(decide(terms, { remaining: 20_000, held: 60_000, stopping: undefined }), {
    signal: 'SIGTERM',
    why: 'max-hold',
    again: 0,
  })
  assert.equal(decide(terms, { remaining: 20_000, held: 65_000, stopping: 5000 }).signal, 'SIGKILL')
})

test('a lease that is valid for less than its ttl shortens default times, and rejects requested ones', () => {
  assert.equal(limitsWithin(usual, 29_000, false, ''), usual)
  const cut = limitsWithin(usual, 7_900, false, '')
  assert.deepEqual([cut.ttl, cut.margin, cut.killAfter], [7_900, 395, 2_238])
  const asked = resolveLimits({ ...none, killAfter: 3_000 })
  assert.equal(limitsWithin(asked, 7_900, true, '').killAfter, 3_000)
  const refused = (error: unknown) =>
    error instanceof CliError && error.exitCode === 64 && /use at most 1s, or longer/.test(error.message)
  assert.throws(() => limitsWithin(asked, 4_500, true, 'longer'), refused)
  assert.throws(() => limitsWithin(usual, 500, false, 'longer'), /grants leases of 500ms only/)
})

test('whatever the terms, renewals get three tries before the TERM, and KILL keeps its margin', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: minTtl, max: 10_000_000 }),
      fc.option(fc.nat(10_000_000), { nil: undefined }),
      (ttl, killAfter) => {
        let terms: ReturnType<typeof resolveLimits>
        try {
          terms = resolveLimits({ ...none, ttl, killAfter })
        } catch (error) {
          assert.ok(error instanceof CliError && killAfter !== undefined)
          return
        }
        assert.ok(terms.killAfter >= 0 && terms.margin >= 150)
        // Tries start at a third of the ttl and may take a sixth each: the third one is over when a third is left.
        assert.ok(terms.killAfter + terms.margin <= ttl / 3)
      },
    ),
  )
})

test('a --kill-after that does not fit is refused, and both remedies would do', () => {
  assert.throws(
    () => resolveLimits({ ...none, killAfter: 20_000 }),
    /^CliError: --kill-after 20s does not fit into --ttl 30s: .*use at most 9s, or --ttl 1m 3s$/,
  )
  assert.equal(resolveLimits({ ...none, killAfter: 9000 }).killAfter, 9000)
  assert.equal(resolveLimits({ ...none, killAfter: 20_000, ttl: 63_000 }).killAfter, 20_000)
})

test('a --min-hold beyond --max-hold is refused', () => {
  assert.throws(
    () => resolveLimits({ ...none, minHold: 2000, maxHold: 1000 }),
    /--min-hold 2s is longer than --max-hold 1s/,
  )
})

test('the front waits for the keeper to speak, then leaves it all the time it needs', () => {
  const end = 100_000
  const silent = deadmanAt(usual, end, false)
  assert.ok(silent > end - usual.killAfter - usual.margin, 'the keeper comes first')
  assert.ok(silent < end - usual.margin, 'earlier than the last moment for KILL')
  const speaking = deadmanAt(usual, end, true)
  assert.ok(speaking > end - usual.margin && speaking < end)
})

after(leakCheck)
