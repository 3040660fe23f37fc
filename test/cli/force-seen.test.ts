import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { createLocks } from 'holdfast'
import { memory } from 'holdfast/memory'
import { forceSeen } from '../../src/cli/force-seen.js'
import { leakCheck } from '../support/leaks.js'

after(leakCheck)

test('the holders that were seen are ended, and none are when another has come', async () => {
  await using locks = createLocks(memory())
  const { read } = locks.readWrite('page')
  const [first] = [await read.acquire(), await read.acquire({ reentrant: false })]
  const seen = (await locks.inspect('page')).holders.map(({ attempt }) => attempt)
  assert.equal(await forceSeen(locks, 'page', []), undefined)
  assert.equal(first.isHeld, true)
  assert.equal(await forceSeen(locks, 'page', seen), seen.length)
  assert.equal(first.isHeld, false)
  assert.equal(await forceSeen(locks, 'page', seen), 0)
})
