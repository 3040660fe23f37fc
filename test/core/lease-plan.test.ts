import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { deadline } from '../../src/core/clock.js'
import {
  healthAt,
  type LeaseFacts,
  type LeasePlan,
  lossAt,
  plan,
  planAfterExtend,
  planRenewal,
  planRetry,
  releaseAt,
} from '../../src/core/lease-plan.js'
import { leakCheck } from '../support/leaks.js'

after(leakCheck)

const never = Number.POSITIVE_INFINITY
const dropped = Number.NEGATIVE_INFINITY

type Changeable = { -readonly [Fact in keyof LeaseFacts]: LeaseFacts[Fact] }

/** Proven at 0 for 12 s, as after a grant. */
function lease(parts: Partial<LeaseFacts> = {}): Changeable {
  return {
    ttl: 12_000,
    lockDelay: 0,
    until: 12_000,
    knownUntil: 12_000,
    maxHoldAt: never,
    maxLeaseTtl: 12_000,
    autoRenew: true,
    renewAt: 4_000,
    overdueAt: 6_000,
    doubtReported: false,
    renewing: false,
    extending: 0,
    loss: undefined,
    ended: false,
    ...parts,
  }
}

const manual = { autoRenew: false, renewAt: 0, overdueAt: never }
const trying = { renewing: true }
const doubtful = { overdueAt: 5_000, doubtReported: true }

const table: readonly (readonly [state: string, parts: Partial<LeaseFacts>, now: number, LeasePlan])[] = [
  ['held, nothing due', {}, 1_000, { health: 'held', action: undefined, nextAt: 4_000 }],
  ['held, a renewal due', {}, 4_000, { health: 'held', action: 'renew', nextAt: 4_000 }],
  ['held, one under way', trying, 4_500, { health: 'held', action: undefined, nextAt: 12_000 }],
  [
    'held, an explicit renewal under way',
    { renewing: true, extending: 1 },
    4_500,
    { health: 'held', action: undefined, nextAt: 12_000 },
  ],
  [
    'one under way that has failed before: nothing is sent beside it',
    { renewing: true, overdueAt: 5_000, doubtReported: true, renewAt: 6_500 },
    6_600,
    { health: 'doubtful', action: undefined, nextAt: 12_000 },
  ],
  [
    'doubtful and not reported',
    { overdueAt: 5_000, renewAt: 7_000 },
    5_000,
    { health: 'doubtful', action: 'report-doubt', nextAt: 7_000 },
  ],
  [
    'doubtful and reported: waits for the next try',
    { ...doubtful, renewAt: 7_000 },
    5_500,
    { health: 'doubtful', action: undefined, nextAt: 7_000 },
  ],
  [
    'doubtful, the next try is due',
    { ...doubtful, renewAt: 7_000 },
    7_000,
    { health: 'doubtful', action: 'renew', nextAt: 7_000 },
  ],
  [
    'the event loop stalled past renewal and doubt: the doubt first',
    {},
    8_000,
    { health: 'doubtful', action: 'report-doubt', nextAt: 4_000 },
  ],
  [
    'the same, reported: then the renewal',
    { doubtReported: true },
    8_000,
    { health: 'doubtful', action: 'renew', nextAt: 4_000 },
  ],
  ['the event loop stalled past the deadline', {}, 12_000, { health: 'lost', action: 'lose', nextAt: 4_000 }],
  [
    'past the deadline with a try under way',
    trying,
    12_000,
    { health: 'lost', action: 'lose', nextAt: 12_000 },
  ],
  [
    'a deadline that an extend moved earlier',
    { until: 3_000, knownUntil: 12_000 },
    2_999,
    { health: 'held', action: undefined, nextAt: 3_000 },
  ],
  [
    'the same, passed',
    { until: 3_000, knownUntil: 12_000 },
    3_000,
    { health: 'lost', action: 'lose', nextAt: 3_000 },
  ],
  ['dropped by the store', { until: dropped }, 1_000, { health: 'lost', action: 'lose', nextAt: dropped }],
  ['past maxHold', { maxHoldAt: 2_000 }, 2_000, { health: 'lost', action: 'lose', nextAt: 2_000 }],
  ['before maxHold', { maxHoldAt: 2_000 }, 1_999, { health: 'held', action: undefined, nextAt: 2_000 }],
  ['not renewed', manual, 11_999, { health: 'held', action: undefined, nextAt: 12_000 }],
  ['not renewed, passed', manual, 12_000, { health: 'lost', action: 'lose', nextAt: 12_000 }],
  [
    'a loss that a check has found, whatever a renewal proved since',
    { loss: 'expired', until: 30_000 },
    13_000,
    { health: 'lost', action: 'lose', nextAt: 4_000 },
  ],
  ['ended', { ended: true }, 4_000, { health: 'lost', action: undefined, nextAt: never }],
]

for (const [state, parts, now, expected] of table)
  test(`plan: ${state}`, () => {
    const before = lease(parts)
    assert.deepEqual(plan(before, now), expected)
    assert.deepEqual(before, lease(parts), 'the plan changed the lease')
  })

for (const [what, parts, now, why] of [
  ['the deadline passed', {}, 12_000, 'expired'],
  ['the store dropped it while time was left', { until: dropped }, 11_999, 'revoked'],
  ['the store dropped it when its time was up', { until: dropped }, 12_000, 'expired'],
  [
    'time was left only by a deadline that has moved since',
    { until: dropped, knownUntil: 3_000 },
    3_000,
    'expired',
  ],
  ['maxHold passed first', { maxHoldAt: 5_000 }, 6_000, 'max-hold'],
  ['both passed', { maxHoldAt: 5_000 }, 12_000, 'expired'],
  ['a check found it before', { loss: 'max-hold', until: dropped }, 1_000, 'max-hold'],
  ['nothing is wrong', {}, 11_999, undefined],
] as const)
  test(`why a lease is lost: ${what}`, () => assert.equal(lossAt(lease(parts), now), why))

for (const [what, parts, why, at] of [
  ['the store dropped it', { until: dropped }, 'taken', 'now'],
  ['the store ended it before its time', { until: dropped }, 'revoked', 'now'],
  ['it expired: once the store has let it expire, too', {}, 'expired', 12_122],
  ['it was held too long: the store keeps it until then', { maxHoldAt: 5_000 }, 'max-hold', 12_122],
  ['the same with a lock-delay', { lockDelay: 990 }, 'max-hold', 12_000 + 990 + 130 + 2],
] as const)
  test(`when the grant of a lost lease is released: ${what}`, () =>
    assert.equal(releaseAt(lease(parts), why), at))

test('after a proof a renewal is due at a third of the time left, rounded down to a beat', () => {
  const early = lease({ until: 112_000, doubtReported: true })
  planRenewal(early, 100_300)
  assert.deepEqual([early.renewAt, early.overdueAt, early.doubtReported], [103_680, 105_680, false])
  const late = lease({ until: 112_000 })
  planRenewal(late, 109_000)
  assert.equal(late.renewAt, 110_000, 'with less than half of its ttl left it waits for no beat')
})

for (const ttl of [1_000, 12_000, 30_000, 600_000])
  test(`leases with a ttl of ${ttl} ms: each is renewed 25 times in 8 ttl, all of them at 100 moments`, () => {
    const moments = new Set<number>()
    for (let first = 0; first < ttl; first += ttl / 100) {
      let count = 0
      const one = lease({ maxLeaseTtl: ttl })
      const proven = (sent: number) => {
        const answered = sent + 3
        one.until = deadline(sent, ttl)
        planRenewal(one, answered)
        assert.ok(
          one.renewAt > sent + ttl / 4 - ttl / 100 && one.renewAt < sent + ttl / 3,
          'too early or too late',
        )
      }
      proven(first)
      // From the first beat on: the time before it is part of a period.
      const from = one.renewAt
      while (one.renewAt < from + 8 * ttl - 1) {
        count++
        moments.add(Math.round((one.renewAt / ttl) * 1_000) % 8_000)
        proven(Math.ceil(one.renewAt))
      }
      assert.equal(count, 25)
    }
    assert.equal(moments.size, 100)
  })

test('a failed renewal is tried again after a twentieth of the ttl, with jitter, and is doubt from then on', () => {
  for (const [random, at] of [
    [0, 4_300],
    [0.5, 4_600],
  ] as const) {
    const failed = lease()
    planRetry(failed, 4_000, random)
    assert.deepEqual([failed.renewAt, failed.overdueAt], [at, 4_000])
  }
  const again = lease({ overdueAt: 3_000 })
  planRetry(again, 4_000, 0.5)
  assert.equal(again.overdueAt, 3_000, 'a doubt begins once')
})

test('after an explicit renewal the next one comes at a third of the time left, or earlier', () => {
  const shorter = lease({ until: 1_300 })
  planAfterExtend(shorter, 1_000)
  assert.equal(shorter.renewAt, 1_100)
  const longer = lease({ until: 40_000 })
  planAfterExtend(longer, 1_000)
  assert.equal(longer.renewAt, 4_000)
})

test('of all states: no loss is missed, nothing is sent for a lost lease, and every action changes the plan', () => {
  let states = 0
  for (const parts of everyState()) {
    states++
    const state = lease(parts)
    const now = 5_000
    const { health, action, nextAt } = plan(state, now)
    const lost = state.ended || state.loss !== undefined || now >= state.until || now >= state.maxHoldAt
    const told = JSON.stringify(parts)
    assert.equal(health === 'lost', lost, told)
    assert.equal(healthAt(state, now), health, told)
    if (action === 'renew') assert.ok(!lost && state.autoRenew && !state.renewing, told)
    if (lost) assert.equal(action, state.ended ? undefined : 'lose', told)
    // Later than that, a loss would be reported late.
    assert.ok(state.ended || nextAt <= Math.min(state.until, state.maxHoldAt), told)
    assert.ok(actionsUntilQuiet(state, now) <= 4, told)
    const quiet = plan(state, now)
    if (!state.ended) assert.ok(quiet.nextAt > now, `a busy loop: ${told}`)
  }
  assert.equal(states, 3 * 2 * 2 * 2 * 2 * 2 * 2 * 2 * 2 * 2)
})

function* everyState(): Generator<Partial<LeaseFacts>> {
  const choices: readonly (readonly [keyof LeaseFacts, readonly unknown[]])[] = [
    ['until', [dropped, 4_000, 12_000]],
    ['maxHoldAt', [5_000, never]],
    ['autoRenew', [false, true]],
    ['renewAt', [4_000, 6_000]],
    ['overdueAt', [4_500, never]],
    ['doubtReported', [false, true]],
    ['renewing', [false, true]],
    ['extending', [0, 1]],
    ['loss', [undefined, 'expired']],
    ['ended', [false, true]],
  ]
  const all = (i: number): Partial<LeaseFacts>[] => {
    const [field, values] = choices[i] ?? []
    if (field === undefined || values === undefined) return [{}]
    return values.flatMap((value) => all(i + 1).map((rest) => ({ [field]: value, ...rest })))
  }
  yield* all(0)
}

/** Performs each action as the watchdog does, with a store that does not answer. */
function actionsUntilQuiet(state: Changeable, now: number): number {
  for (let count = 0; ; count++) {
    const { action } = plan(state, now)
    if (action === undefined || count > 10) return count
    if (action === 'lose') state.ended = true
    if (action === 'report-doubt') state.doubtReported = true
    if (action === 'renew') state.renewing = true
  }
}
