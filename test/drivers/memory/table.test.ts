import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { exclusive, type Mode, permits, shared } from '../../../src/core/mode.js'
import { tokenReserve } from '../../../src/core/token.js'
import {
  type AcquireResult,
  acquire,
  cancel,
  downgrade,
  emptyRow,
  expire,
  forceRelease,
  isIdle,
  nextExpiry,
  type Row,
  release,
  renew,
  type Step,
  toLockStatus,
} from '../../../src/drivers/memory/table.js'
import { leakCheck } from '../../support/leaks.js'

const wall = 1_700_000_000_000

/** A row and its commands, at a time that stays fixed unless moved. */
function table(row: Row = emptyRow('x')) {
  let now = 0
  const keep = <A>(step: Step<A>): Step<A> => {
    row = step.row
    return step
  }
  return {
    get row() {
      return row
    },
    move: (ms: number) => (now += ms),
    ask: (
      attempt: string,
      mode: Mode = exclusive,
      more: { wait?: boolean; ttl?: number; ticket?: number } = {},
    ) => keep(acquire(row, { attempt, mode, ttl: 100, wait: true, ...more }, now, wall)),
    release: (attempt: string, last?: number) => keep(release(row, attempt, last, now, wall)),
    renew: (attempt: string, ttl = 100, order?: number) => keep(renew(row, attempt, ttl, now, wall, order)),
    cancel: (attempt: string) => keep(cancel(row, attempt, now, wall)),
    downgrade: (attempt: string, last?: number) => keep(downgrade(row, attempt, last, now, wall)),
    force: () => keep(forceRelease(row, now, wall)),
    expire: () => keep(expire(row, now, wall)),
    standing: () => toLockStatus(row, now),
  }
}

const who = (step: { granted: readonly { attempt: string }[] }) => step.granted.map((hold) => hold.attempt)
const holders = (row: Row) => row.holds.map((hold) => hold.attempt)

function tokenOf(answer: AcquireResult): number {
  assert.equal(answer.is, 'granted')
  return answer.hold.token
}

test('a free lock is granted at once, and the token begins at the wall clock in microseconds', () => {
  const t = table()
  assert.equal(tokenOf(t.ask('a').answer), wall * 1000)
})

test('a second one waits, and the release grants it in the same step', () => {
  const t = table()
  t.ask('a')
  const asked = t.ask('b').answer
  assert.deepEqual(asked, { is: 'waiting', position: 1, ticket: wall * 1000 })
  const freed = t.release('a')
  assert.equal(freed.answer, 'released')
  assert.deepEqual(who(freed), ['b'])
})

test('a try that finds the lock taken reports that and leaves nothing behind', () => {
  const t = table()
  t.ask('a')
  const before = t.row
  assert.deepEqual(t.ask('b', exclusive, { wait: false }).answer, { is: 'busy' })
  assert.equal(t.row, before)
})

test('a try does not overtake waiters', () => {
  const t = table()
  t.ask('r1', shared)
  t.ask('w')
  assert.equal(t.ask('r2', shared, { wait: false }).answer.is, 'busy')
})

test('a repeated acquire gives the same token and proves the hold again', () => {
  const t = table()
  const first = tokenOf(t.ask('a').answer)
  t.move(60)
  assert.equal(tokenOf(t.ask('a').answer), first)
  t.move(60)
  assert.deepEqual(holders(t.expire().row), ['a'])
})

test('a repeated acquire keeps its position in the queue', () => {
  const t = table()
  t.ask('a')
  t.ask('b')
  t.ask('c')
  assert.equal((t.ask('b').answer as { position: number }).position, 1)
  assert.deepEqual(who(t.release('a')), ['b'])
})

test('a repeated release is recognised and does not touch the next holder', () => {
  const t = table()
  t.ask('a')
  t.ask('b')
  t.release('a')
  assert.equal(t.release('a').answer, 'already-released')
  assert.deepEqual(holders(t.row), ['b'])
})

test('a release without a hold reports lost', () => {
  const t = table()
  t.ask('a')
  assert.equal(t.release('stranger').answer, 'lost')
  assert.deepEqual(holders(t.row), ['a'])
})

test('an acquire that arrives after its own release or cancel makes no lock', () => {
  const t = table()
  t.ask('a')
  t.release('a')
  assert.deepEqual(t.ask('a').answer, { is: 'over' })
  t.cancel('b')
  assert.deepEqual(t.ask('b').answer, { is: 'over' })
  assert.ok(isIdle(t.row))
})

test('the unused part of the reserve comes back, and the next token follows the last one used', () => {
  const t = table(emptyRow('x', wall * 2000))
  const first = tokenOf(t.ask('a').answer)
  t.release('a', first + 7)
  assert.equal(tokenOf(t.ask('b').answer), first + 8)
})

test('when the last token used is not known, the whole reserve counts as used', () => {
  const t = table(emptyRow('x', wall * 2000))
  const first = tokenOf(t.ask('a').answer)
  t.release('a')
  assert.equal(tokenOf(t.ask('b').answer), first + tokenReserve + 1)
})

test('a last token outside the reserve cannot move tokens back or away', () => {
  const t = table(emptyRow('x', wall * 2000))
  const first = tokenOf(t.ask('a').answer)
  t.release('a', 5)
  const second = tokenOf(t.ask('b').answer)
  assert.equal(second, first + 1)
  t.release('b', Number.MAX_SAFE_INTEGER)
  assert.equal(tokenOf(t.ask('c').answer), second + tokenReserve + 1)
})

test('an overdue holder is dropped by the next request, and the head of the queue is granted', () => {
  const t = table()
  const first = tokenOf(t.ask('a').answer)
  t.ask('b')
  assert.equal(nextExpiry(t.row), 100)
  t.move(100)
  const step = t.expire()
  assert.deepEqual(
    step.expired.map((hold) => hold.attempt),
    ['a'],
  )
  assert.deepEqual(who(step), ['b'])
  assert.ok(
    (step.granted[0]?.token ?? 0) > first + tokenReserve,
    'the reserve of a lost holder is never given again',
  )
  assert.equal(t.release('a').answer, 'lost')
})

test('a renewal moves the deadline; one that arrives too late does not', () => {
  const t = table()
  t.ask('a')
  t.move(99)
  assert.equal(t.renew('a').answer?.expires, 199)
  t.move(100)
  assert.equal(t.renew('a').answer, undefined)
  assert.ok(isIdle(t.row))
})

test('a late copy shortens nothing: only a renewal with an order greater than all before it does', () => {
  const t = table()
  t.ask('a')
  assert.equal(t.renew('a', 1000).answer?.expires, 1000)
  t.ask('a')
  t.move(10)
  assert.equal(t.renew('a').answer?.expires, 1000)
  assert.equal(t.renew('a', 50, 7).answer?.expires, 60)
  assert.equal(t.renew('a', 500).answer?.expires, 510)
  assert.equal(t.renew('a', 50, 7).answer?.expires, 510)
  assert.equal(t.renew('a', 50, 6).answer?.expires, 510)
  assert.equal(t.renew('a', 50, 8).answer?.expires, 60)
  assert.deepEqual([t.row.holds[0]?.ttl, t.standing().holders[0]?.expiresIn], [50, 50])
})

test('a claim that removes an expired holder gets its own grant in the reply', () => {
  const t = table()
  t.ask('a')
  t.ask('b')
  t.move(100)
  const step = t.ask('b')
  assert.equal(step.answer.is, 'granted')
  assert.deepEqual(who(step), [])
})

test('readers share, a waiting writer stops later readers, and readers behind it come in together', () => {
  const t = table()
  t.ask('r1', shared)
  assert.equal(t.ask('r2', shared).answer.is, 'granted')
  t.ask('w')
  for (const reader of ['r3', 'r4']) assert.equal(t.ask(reader, shared).answer.is, 'waiting')
  assert.deepEqual(who(t.release('r1')), [])
  assert.deepEqual(who(t.release('r2')), ['w'])
  assert.deepEqual(who(t.release('w')), ['r3', 'r4'])
})

test('a big request for permits blocks the small ones behind it until it fits', () => {
  const t = table()
  t.ask('a', permits(2, 3))
  assert.equal(t.ask('big', permits(3, 3)).answer.is, 'waiting')
  assert.equal(t.ask('small', permits(1, 3)).answer.is, 'waiting')
  assert.deepEqual(who(t.release('a')), ['big'])
  assert.deepEqual(who(t.release('big')), ['small'])
})

test('another limit is refused while the semaphore is in use, by holders or waiters, and accepted afterwards', () => {
  const t = table()
  t.ask('a', permits(1, 3))
  assert.deepEqual(t.ask('b', permits(1, 4)).answer, { is: 'limit', limit: 3 })
  t.release('a')
  t.ask('w')
  t.ask('c', permits(1, 5))
  assert.deepEqual(t.ask('d', permits(1, 3)).answer, { is: 'limit', limit: 5 })
  t.release('w')
  t.release('c')
  assert.equal(t.ask('e', permits(1, 4)).answer.is, 'granted')
})

test('modes of one name stand in one line', () => {
  const t = table()
  t.ask('s', permits(1, 2))
  assert.equal(t.ask('r', shared).answer.is, 'waiting')
  assert.equal(t.ask('w').answer.is, 'waiting')
  assert.deepEqual(who(t.release('s')), ['r'])
  assert.deepEqual(who(t.release('r')), ['w'])
})

test('a downgrade keeps the last token used and lets the readers at the head in with greater ones', () => {
  const t = table(emptyRow('x', wall * 2000))
  const first = tokenOf(t.ask('a').answer)
  t.ask('r', shared)
  t.ask('w')
  const step = t.downgrade('a', first + 2)
  assert.equal(step.answer?.token, first + 2)
  assert.deepEqual(who(step), ['r'])
  assert.equal(step.granted[0]?.token, first + 3)
  assert.equal(t.downgrade('a').answer?.token, first + 2)
  assert.deepEqual(holders(t.row), ['a', 'r'])
})

test('permits and strangers cannot be downgraded', () => {
  const t = table()
  t.ask('a', permits(1, 2))
  assert.equal(t.downgrade('a').answer, undefined)
  assert.equal(t.downgrade('b').answer, undefined)
})

test('a cancelled waiter leaves the queue, and those behind it move up', () => {
  const t = table()
  t.ask('r1', shared)
  t.ask('w')
  t.ask('r2', shared)
  const step = t.cancel('w')
  assert.equal(step.answer, true)
  assert.deepEqual(who(step), ['r2'])
  assert.equal(t.cancel('w').answer, false)
})

test('a cancel that arrives after the grant releases it', () => {
  const t = table()
  t.ask('a')
  t.ask('b')
  assert.deepEqual(who(t.cancel('a')), ['b'])
  assert.equal(t.release('a').answer, 'already-released')
})

test('force ends all holds and grants the queue; the forced holder then learns of its loss', () => {
  const t = table()
  t.ask('r1', shared)
  t.ask('r2', shared)
  t.ask('w')
  const step = t.force()
  assert.deepEqual(
    step.answer.map((hold) => hold.attempt),
    ['r1', 'r2'],
  )
  assert.deepEqual(who(step), ['w'])
  assert.equal(t.release('r1').answer, 'lost')
})

test('a ticket from an earlier queue puts its owner back at its position', () => {
  const t = table()
  t.ask('a')
  for (const name of ['one', 'two', 'three']) t.ask(name)
  const [one, two, three] = t.row.queue.map((place) => place.ticket)
  const again = table()
  again.ask('a')
  again.ask('new')
  again.ask('three', exclusive, { ticket: three! })
  again.ask('one', exclusive, { ticket: one! - 2 })
  const answer = again.ask('two', exclusive, { ticket: two! - 2 }).answer
  assert.deepEqual(
    again.row.queue.map((place) => place.attempt),
    ['one', 'two', 'new', 'three'],
  )
  assert.equal((answer as { position: number }).position, 2)
})

test('a waiter that returns to the head of the queue and fits is granted at once', () => {
  const t = table()
  t.ask('r', shared)
  t.ask('w')
  assert.equal(t.ask('back', shared, { ticket: 1 }).answer.is, 'granted')
})

test('standing shows holders and waiters in order, and a reserve is not yet a token', () => {
  const t = table()
  const token = tokenOf(t.ask('a').answer)
  t.move(10)
  t.ask('b', shared)
  t.move(5)
  assert.deepEqual(t.standing(), {
    name: 'x',
    holders: [{ attempt: 'a', mode: exclusive, token, heldFor: 15, expiresIn: 85 }],
    waiters: [{ attempt: 'b', mode: shared, waitedFor: 5 }],
    lastToken: token,
  })
})

test('ten thousand readers behind one writer come in together, and quickly', () => {
  const t = table()
  t.ask('w')
  const names = Array.from({ length: 10_000 }, (_, i) => `reader-${i}`)
  for (const name of names) t.ask(name, shared)
  const started = process.cpuUsage()
  assert.deepEqual(who(t.release('w')), names)
  // Quadratic work would be some 10^8 steps. Of the processor alone: who waits for it is not slow.
  const { user, system } = process.cpuUsage(started)
  assert.ok(user + system < 500_000, `${user + system} µs`)
})

after(leakCheck)
