import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { LockOrder } from '../../src/core/lock-order.js'
import { leakCheck } from '../support/leaks.js'

test('an order that contradicts another is reported with both, once', () => {
  const order = new LockOrder()
  assert.equal(order.note(['a'], 'b'), undefined)
  assert.equal(order.note(['a'], 'b'), undefined)
  assert.deepEqual(order.note(['b'], 'a'), [
    ['b', 'a'],
    ['a', 'b'],
  ])
  assert.equal(order.note(['b'], 'a'), undefined)
})

test('a contradiction over several steps is reported with all of them', () => {
  const order = new LockOrder()
  order.note(['a'], 'b')
  order.note(['b'], 'c')
  order.note(['c'], 'd')
  assert.deepEqual(order.note(['x', 'd'], 'a'), [
    ['d', 'a'],
    ['a', 'b', 'c', 'd'],
  ])
})

test('orders that fit together are never reported, however many', () => {
  const order = new LockOrder()
  for (let i = 0; i < 200; i++)
    for (let j = i + 1; j < Math.min(i + 5, 200); j++) assert.equal(order.note([`${i}`], `${j}`), undefined)
  assert.equal(order.note(['a'], 'a'), undefined)
})

test('names that are used once do not pile up', () => {
  const order = new LockOrder()
  for (let i = 0; i < 10_050; i++) order.note([`order:${i}`], 'journal')
  assert.equal(order.note(['journal'], 'order:1'), undefined, 'it has forgotten the oldest')
  assert.ok(order.note(['journal'], 'order:10049') !== undefined)
})

after(leakCheck)
