// Many waiters of one process on one name: how many watch, and how many requests are in flight.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { AllLocalWaiters, LocalWaiters } from '../../../src/drivers/kit/local-waiters.js'
import { leakCheck } from '../../support/leaks.js'

const none = () => undefined
const bounds = { watching: 2, atOnce: 3 }

test('the first watch; the next begins to when one of them goes, and no other', () => {
  const waiters = new LocalWaiters(bounds, none)
  const woken: number[] = []
  const members = [10, 20, 30, 40, 50].map((order) => {
    const member = waiters.join(order)
    member.wake = () => void woken.push(order)
    return member
  })
  const watching = () => members.filter(({ watches }) => watches).map(({ order }) => order)
  assert.deepEqual(watching(), [10, 20])
  members[4]?.leave()
  members[4]?.leave()
  assert.deepEqual(woken, [])
  members[0]?.leave()
  assert.deepEqual(watching(), [10, 20, 30])
  assert.deepEqual(woken, [30])
  members[2]?.leave()
  assert.deepEqual(woken, [30, 40])
  waiters.wakeFirst()
  assert.deepEqual(woken, [30, 40, 20])
})

test('one whose entry is older than those there takes its place among them', () => {
  const waiters = new LocalWaiters(bounds, none)
  const [late, later, latest] = [waiters.join(30), waiters.join(40), waiters.join(50)]
  const early = waiters.join(10)
  assert.equal(early.watches, true)
  early.leave()
  late.leave()
  assert.deepEqual([later.watches, latest.watches], [true, true])
})

test('nothing is left ahead of one that was granted', () => {
  const waiters = new LocalWaiters(bounds, none)
  const [first, second] = [waiters.join(20), waiters.join(40)]
  const entries = [10, 20, 30].map((order) => ({ order }))
  assert.deepEqual(second.mayExist(entries), entries)
  first.granted()
  assert.deepEqual(second.mayExist(entries), [{ order: 20 }, { order: 30 }])
})

test('a position before the vanished ones: the store has lost its history, so the known state is discarded', () => {
  const waiters = new LocalWaiters(bounds, none)
  waiters.join(100)
  waiters.join(90).granted()
  const late = waiters.join(7)
  const entries = [5, 6].map((order) => ({ order }))
  assert.deepEqual(late.mayExist(entries), entries)
})

test('so many requests are in flight at once; those that leave go first, and one that fails makes room', async () => {
  const waiters = new LocalWaiters(bounds, none)
  const begun: string[] = []
  const end: ((error?: Error) => void)[] = []
  const request = (name: string) => () =>
    new Promise<string>((resolve, reject) => {
      begun.push(name)
      end.push((error) => (error === undefined ? resolve(name) : reject(error)))
    })
  const entering = ['a', 'b', 'c', 'd', 'e'].map((name) => waiters.enter(request(name)))
  const leaving = waiters.exit(request('left'))
  assert.deepEqual(begun, ['a', 'b', 'c'])
  end[0]?.(new Error('broken'))
  await assert.rejects(entering[0] as Promise<string>, { message: 'broken' })
  await new Promise(setImmediate)
  assert.deepEqual(begun, ['a', 'b', 'c', 'left'])
  for (let n = 1; n < 6; n++) {
    end[n]?.()
    await new Promise(setImmediate)
  }
  assert.deepEqual(await Promise.all(entering.slice(1)), ['b', 'c', 'd', 'e'])
  assert.equal(await leaving, 'left')
})

test('a name is forgotten with its last waiter and request', async () => {
  const all = new AllLocalWaiters(bounds)
  const waiters = all.of('name')
  await waiters.enter(async () => undefined)
  assert.notEqual(all.of('name'), waiters)
  const member = all.of('name').join(1)
  const known = all.of('name')
  await known.enter(async () => undefined)
  assert.equal(all.of('name'), known)
  member.leave()
  assert.notEqual(all.of('name'), known)
})

after(leakCheck)
