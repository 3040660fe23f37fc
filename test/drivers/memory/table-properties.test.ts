// Random commands against the table. After each one, what must hold of any row is checked, and so is what its answer says.
import '../../support/background.js'
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import fc from 'fast-check'
import { admits, exclusive, type Mode, permits, shared } from '../../../src/core/mode.js'
import * as table from '../../../src/drivers/memory/table.js'
import { sequences } from '../../support/amounts.js'
import { leakCheck } from '../../support/leaks.js'

type Command =
  | { do: 'acquire'; attempt: string; mode: Mode; wait: boolean; ttl: number; ticket: number | undefined }
  | { do: 'renew'; attempt: string; ttl: number; order: number | undefined }
  | { do: 'release' | 'downgrade'; attempt: string; used: number | undefined }
  | { do: 'cancel'; attempt: string }
  | { do: 'force' }
  | { do: 'pass'; ms: number }

const attempts = Array.from({ length: 8 }, (_, i) => `attempt-${i}`)
const attempt = fc.constantFrom(...attempts)
const ttl = fc.constantFrom(10, 50, 1000)
const order = fc.option(fc.integer({ min: 1, max: 4 }), { nil: undefined })
const used = fc.option(fc.nat({ max: 20 }), { nil: undefined })
const mode: fc.Arbitrary<Mode> = fc.oneof(
  fc.constant(exclusive),
  fc.constant(shared),
  fc.integer({ min: 1, max: 3 }).map((take) => permits(take, 3)),
  fc.constant(permits(1, 2)),
)
const commands: fc.Arbitrary<Command[]> = fc.array(
  fc.oneof(
    {
      weight: 6,
      arbitrary: fc.record({
        do: fc.constant('acquire' as const),
        attempt,
        mode,
        ttl,
        wait: fc.boolean(),
        ticket: fc.option(fc.nat({ max: 30 }), { nil: undefined, freq: 8 }),
      }),
    },
    { weight: 2, arbitrary: fc.record({ do: fc.constant('renew' as const), attempt, ttl, order }) },
    { weight: 4, arbitrary: fc.record({ do: fc.constant('release' as const), attempt, used }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constant('downgrade' as const), attempt, used }) },
    { weight: 2, arbitrary: fc.record({ do: fc.constant('cancel' as const), attempt }) },
    { weight: 1, arbitrary: fc.constant({ do: 'force' as const }) },
    {
      weight: 3,
      arbitrary: fc.record({ do: fc.constant('pass' as const), ms: fc.integer({ min: 1, max: 30 }) }),
    },
  ),
  { maxLength: 60 },
)

function run(row: table.Row, command: Command, now: number, wall: number): table.Step<unknown> {
  switch (command.do) {
    case 'acquire':
      return table.acquire(row, command, now, wall)
    case 'renew':
      return table.renew(row, command.attempt, command.ttl, now, wall, command.order)
    case 'release':
    case 'downgrade': {
      const hold = row.holds.find((one) => one.attempt === command.attempt)
      const last = hold && command.used !== undefined ? hold.token + command.used : undefined
      const verb = command.do === 'release' ? table.release : table.downgrade
      return verb(row, command.attempt, last, now, wall)
    }
    case 'cancel':
      return table.cancel(row, command.attempt, now, wall)
    case 'force':
      return table.forceRelease(row, now, wall)
    case 'pass':
      return table.expire(row, now, wall)
  }
}

/** Holds for every row after every command. */
function checkRow(row: table.Row, now: number): void {
  const modes = row.holds.map((hold) => hold.mode)
  for (const [i, asked] of modes.entries()) {
    assert.ok(
      admits(
        modes.filter((_, other) => other !== i),
        asked,
      ),
      'two holds that may not stand beside each other',
    )
  }
  const head = row.queue[0]
  if (head) assert.ok(!admits(modes, head.mode), 'a waiter that fits was not woken')
  const tickets = row.queue.map((place) => place.ticket)
  for (const [i, ticket] of tickets.entries())
    assert.ok(i === 0 || (tickets[i - 1] ?? 0) <= ticket, 'the line is out of order')
  const everybody = [...row.holds, ...row.queue].map((one) => one.attempt)
  assert.equal(new Set(everybody).size, everybody.length, 'one attempt is in two places')
  for (const gone of row.ended) assert.ok(!everybody.includes(gone), 'an ended attempt came back')
  for (const hold of row.holds) {
    assert.ok(hold.expires > now, 'an overdue hold was left')
    assert.ok(hold.upTo <= row.token, 'a reserve reaches beyond the row')
  }
}

/** Follows one run of commands and remembers what the row alone cannot show: every token ever given or used. */
function follow(list: readonly Command[], wallOf: (now: number) => number): table.Row {
  let row = table.emptyRow('x')
  frozenData(row)
  let now = 0
  let newest = 0
  followed++
  for (const command of list) {
    if (command.do === 'pass') now += command.ms
    const before = row
    const step = run(before, command, now, wallOf(now))
    row = step.row
    frozenData(row)
    checkRow(row, now)
    newest = checkTokens(before, step, command, newest)
    checkOrder(before, step)
    if (command.do !== 'force') checkRepeat(command, step, now, wallOf(now))
  }
  return row
}

function checkTokens(before: table.Row, step: table.Step<unknown>, command: Command, newest: number): number {
  const old = new Set(before.holds.map((hold) => hold.attempt))
  for (const gone of before.holds) {
    if (step.row.holds.some((hold) => hold.attempt === gone.attempt)) continue
    // Whoever lost its hold without giving it back may have used its whole reserve.
    const gaveBack = (command.do === 'release' || command.do === 'cancel') && command.attempt === gone.attempt
    const spare = command.do === 'cancel' ? 0 : command.do === 'release' ? command.used : undefined
    const used = gaveBack && spare !== undefined ? Math.min(gone.token + spare, gone.upTo) : gone.upTo
    newest = Math.max(newest, used)
  }
  for (const hold of step.row.holds) {
    if (old.has(hold.attempt)) continue
    assert.ok(hold.token > newest, `token ${hold.token} was given after ${newest}`)
    newest = hold.token
  }
  return newest
}

function checkOrder(before: table.Row, step: table.Step<unknown>): void {
  for (const hold of step.granted) {
    const place = before.queue.find((one) => one.attempt === hold.attempt)
    assert.ok(place, 'a grant to somebody who did not wait')
    for (const still of step.row.queue) assert.ok(still.ticket >= place.ticket, 'somebody was overtaken')
  }
}

/** The same command once more, at the same moment, changes nothing. */
function checkRepeat(command: Command, first: table.Step<unknown>, now: number, wall: number): void {
  const second = run(first.row, command, now, wall)
  equal(second.row, first.row, `${command.do} is not idempotent`)
  assert.equal(second.granted.length, 0)
  if (command.do === 'acquire' || command.do === 'renew') equal(second.answer, first.answer)
}

/** As `deepEqual`, which takes most of the time of a hundred thousand sequences and is asked only what to say. */
function equal(actual: unknown, expected: unknown, what?: string): void {
  if (alike(actual, expected)) return
  assert.deepEqual(actual, expected, what)
  assert.fail('two comparisons contradict each other')
}

function alike(a: unknown, b: unknown): boolean {
  if (Object.is(a, b)) return true
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false
  if (Object.getPrototypeOf(a) !== Object.getPrototypeOf(b)) return false
  const keys = Object.keys(a)
  if (keys.length !== Object.keys(b).length) return false
  for (const key of keys) {
    if (!Object.hasOwn(b, key)) return false
    if (!alike((a as Record<string, unknown>)[key], (b as Record<string, unknown>)[key])) return false
  }
  return true
}

/** Freezes a row, which must be plain data: nothing in it but strings, numbers, booleans, lists and plain objects. */
function frozenData(value: unknown): void {
  if (typeof value !== 'object' || value === null) {
    assert.ok(['string', 'number', 'boolean', 'undefined'].includes(typeof value), 'a row is plain data')
    return
  }
  if (Object.isFrozen(value) && seen.has(value)) return
  const kind = Object.getPrototypeOf(value)
  assert.ok(kind === Object.prototype || kind === Array.prototype, 'a row is plain data')
  for (const key of Reflect.ownKeys(value)) {
    assert.equal(typeof key, 'string')
    frozenData((value as Record<string, unknown>)[key as string])
  }
  seen.add(Object.freeze(value))
}
const seen = new WeakSet<object>()

const { properties, each } = sequences['drivers/memory/table-properties']
const runs = Number(process.env['HOLDFAST_RUNS'] ?? each)
let followed = 0

test('no sequence of commands breaks exclusion, order, tokens or idempotency', () => {
  fc.assert(
    fc.property(commands, (list) => void follow(list, (now) => 1000 + now)),
    { numRuns: runs },
  )
})

test('tokens grow even when the wall clock jumps to and fro', () => {
  fc.assert(
    fc.property(commands, fc.array(fc.nat({ max: 1e12 }), { minLength: 1 }), (list, walls) => {
      follow(list, (now) => walls[now % walls.length] ?? 0)
    }),
    { numRuns: runs },
  )
})

test('when holders release, everybody who waits is served, in order', () => {
  fc.assert(
    fc.property(commands, (list) => {
      let row = follow(list, (now) => 1000 + now)
      const waiting = row.queue.map((place) => place.attempt)
      const served: string[] = []
      while (row.holds.length > 0) {
        const holder = row.holds[0]!
        const step = table.release(row, holder.attempt, undefined, 0, 0)
        served.push(...step.granted.map((hold) => hold.attempt))
        row = step.row
      }
      assert.deepEqual(served, waiting)
      assert.ok(table.isIdle(row))
    }),
    { numRuns: runs },
  )
})

test('when holders say nothing at all, time alone serves everybody', () => {
  fc.assert(
    fc.property(commands, (list) => {
      let row = follow(list, (now) => 1000 + now)
      for (let rounds = 0; rounds <= attempts.length && !table.isIdle(row); rounds++) {
        row = table.expire(row, table.nextExpiry(row) + 1000, 0).row
      }
      assert.ok(table.isIdle(row))
    }),
    { numRuns: runs },
  )
})

test('as many sequences were tried as the documentation says', () => {
  assert.equal(followed, properties * runs)
})

after(leakCheck)
