// The parts that etcd and Consul share, without a server: the rules of a line, the store's time, keys, and one session's beats.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { type Mode, permits, shared } from '../../../src/core/mode.js'
import {
  encode as consulKey,
  parseLockName as consulName,
  lockKeys,
} from '../../../src/drivers/consul/keys.js'
import { base64, lockKeys as etcdLine, parseLockName as etcdName } from '../../../src/drivers/etcd/keys.js'
import { ServerTime } from '../../../src/drivers/kit/server-time.js'
import {
  conflictingLimit,
  findBlocker,
  grantedCount,
  isGranted,
} from '../../../src/drivers/kit/sessions/order.js'
import { type HeartbeatReply, Session, type SessionEntry } from '../../../src/drivers/kit/sessions/session.js'
import { fakeClock } from '../../support/fake-clock.js'
import { leakCheck } from '../../support/leaks.js'

const x: Mode = { kind: 'exclusive' }
const line = (...modes: Mode[]) => modes.map((mode) => ({ mode }))

test('a queue entry holds when it is compatible with all entries before it, and nobody overtakes', () => {
  const cases: readonly (readonly [before: Mode[], mode: Mode, holds: boolean])[] = [
    [[], x, true],
    [[x], x, false],
    [[shared], shared, true],
    [[shared, x], shared, false],
    [[x], shared, false],
    [[permits(2, 3)], permits(1, 3), true],
    [[permits(2, 3), permits(2, 3)], permits(1, 3), false],
    [[shared], permits(1, 3), false],
  ]
  for (const [before, mode, expected] of cases) assert.equal(isGranted(line(...before), mode), expected)
})

test('the holders are the first entries of the queue', () => {
  assert.equal(grantedCount(line(x, x)), 1)
  assert.equal(grantedCount(line(shared, shared, x, shared)), 2)
  assert.equal(grantedCount(line(permits(2, 3), permits(1, 3), permits(1, 3))), 2)
  assert.equal(grantedCount([]), 0)
})

test('one place is waited for: the last for a writer, the last writer for a reader, none or any for permits', () => {
  const [a, b, c] = line(x, shared, shared)
  assert.ok(a && b && c)
  assert.equal(findBlocker([a, b, c], x), c)
  assert.equal(findBlocker([a, b, c], shared), a)
  assert.equal(findBlocker(line(permits(3, 3)), permits(1, 3)), undefined)
  assert.equal(findBlocker([a], permits(1, 3)), a)
  const [first, stranger, last] = line(permits(1, 3), permits(1, 4), permits(1, 3))
  assert.ok(first && stranger && last)
  assert.equal(findBlocker([first, stranger], permits(1, 3)), stranger)
})

test('the first place of a semaphore decides its limit', () => {
  const mixed = line(permits(1, 3), permits(1, 4))
  assert.equal(conflictingLimit(mixed, permits(1, 4)), 3)
  assert.equal(conflictingLimit(mixed, permits(1, 3)), undefined)
  assert.equal(isGranted(mixed, permits(1, 3)), false, 'until the other has left')
  assert.equal(conflictingLimit(line(permits(1, 4), permits(1, 3)), permits(1, 3)), 4)
  assert.equal(conflictingLimit([], permits(1, 3)), undefined)
})

test("the store's time is this machine's as long as they agree, and the store's where they do not", () => {
  const clock = fakeClock()
  let wall = Date.parse('2030-01-01T00:00:00.400Z')
  const time = new ServerTime(clock, () => wall)
  const second = 'Tue, 01 Jan 2030 00:00:00 GMT'
  time.update(second, clock.now())
  assert.equal(time.now(), wall)
  wall += 3_600_000
  assert.ok(Math.abs(time.now() - Date.parse(second)) <= 1_000, 'an hour ahead')
  wall -= 7_200_000
  assert.ok(Math.abs(time.now() - Date.parse(second)) <= 1_000, 'an hour behind')
  time.update('nonsense', clock.now())
  assert.ok(Math.abs(time.now() - Date.parse(second)) <= 1_000)
})

test('names become keys and back, and no two the same', () => {
  const names = [
    'a',
    'a/b',
    'a//b',
    'a%2Fb',
    'a%2F%2Fb',
    '..',
    '.',
    '%2E%2E',
    '/',
    'a/',
    '/a',
    'a/.lock',
    'é 🔒',
  ]
  const attempt = '0'.repeat(32)
  const keys = new Set<string>()
  for (const name of names) {
    const { lock, entry } = lockKeys('p/', name)
    assert.equal(consulName('p/', lock), name)
    assert.equal(consulName('p/', entry(attempt)), name)
    assert.equal(new URL(`http://h/${consulKey(name)}`).pathname.includes('//'), false, name)
    keys.add(lock)
    const key = etcdLine('p/', name).entry(attempt)
    assert.equal(etcdName('p/', { key, create_revision: '1', mod_revision: '1' }), name)
  }
  assert.equal(keys.size, names.length)
  assert.equal(consulName('p/', 'p/%cell/x/.lock'), undefined)
  const foreign = { key: base64('p/%over/x'), create_revision: '1', mod_revision: '1' }
  assert.equal(etcdName('p/', foreign), undefined)
})

function member(key: string, more: Partial<SessionEntry> = {}): SessionEntry & { readonly heard: string[] } {
  const heard: string[] = []
  return {
    key,
    waits: false,
    onGone: () => void heard.push('gone'),
    onWake: () => void heard.push('wake'),
    onFailure: () => void heard.push('trouble'),
    ...more,
    heard,
  }
}

test('one beat is for all, tells each what it found, and moves the deadline from before it left', async () => {
  const clock = fakeClock()
  const asked: string[][] = []
  let answer: HeartbeatReply = { gone: new Set(['b', 'w']) }
  const ask = async (_: string, members: readonly SessionEntry[]) => {
    asked.push(members.map(({ key }) => key))
    clock.stall(10)
    return answer
  }
  const session = new Session(ask, clock, 'id', 10_000, clock.now())
  const [a, b, c] = [member('a'), member('b'), member('c', { predecessor: 'w' })]
  for (const one of [a, b, c]) session.add(one)
  await clock.advance(1_000)
  const sent = clock.now()
  await Promise.all([session.heartbeat(), session.heartbeat(), session.heartbeat()])
  assert.deepEqual(asked, [['a', 'b', 'c']])
  assert.deepEqual([a.heard, b.heard, c.heard], [[], ['gone'], ['wake']])
  assert.equal(session.until, sent + 10_000 * 0.99 - 2)
  await clock.advance(2_000)
  answer = 'ended'
  await session.heartbeat()
  assert.deepEqual([a.heard, c.heard], [['gone'], ['wake', 'gone']])
  assert.equal(session.usable, false)
  // Its place was on its way when the session ended.
  const late = member('late', { waits: true })
  session.add(late)
  assert.deepEqual(late.heard, ['gone'])
})

test('a session with waiters sends heartbeats by itself, reports failures, and ends when its time is over', async () => {
  const clock = fakeClock()
  let beats = 0
  const ask = async (): Promise<HeartbeatReply> => {
    beats++
    throw new Error('away')
  }
  const session = new Session(ask, clock, 'id', 3_000, clock.now())
  const waiter = member('w', { waits: true })
  session.add(waiter)
  for (let i = 0; i < 60 && !session.ended; i++) {
    await clock.advance(100)
  }
  assert.ok(beats >= 3, `${beats} beats`)
  assert.equal(session.ended, true)
  assert.deepEqual(waiter.heard.slice(0, 2), ['trouble', 'trouble'])
  assert.ok(waiter.heard.includes('gone'))
})

after(leakCheck)
