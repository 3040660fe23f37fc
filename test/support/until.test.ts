import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { leakCheck } from './leaks.js'
import { until } from './until.js'

test('until returns the first truthy answer, from a plain or an async condition', async () => {
  let looks = 0
  assert.equal(await until(() => ++looks >= 3 && `after ${looks} looks`, { every: 1 }), 'after 3 looks')
  assert.equal(await until(async () => 7), 7)
})

test('until names what was awaited, for how long, and what the last answer was', async () => {
  await assert.rejects(
    until(() => undefined, { within: 20, what: 'the next holder' }),
    {
      message: 'timed out after 20 ms waiting for the next holder: the last answer was undefined',
    },
  )
})

test('until shows the condition where nobody named it', async () => {
  const grants: string[] = []
  await assert.rejects(
    until(() => grants.length, { within: 5 }),
    /waiting for grants\.length: the last answer was 0/,
  )
})

test('a condition that hangs is given up at the deadline', async () => {
  const never = new Promise<boolean>(() => {})
  await assert.rejects(
    until(() => never, { within: 20, what: 'nothing' }),
    /it was never answered/,
  )
})

test('a condition that throws ends the wait with its own error', async () => {
  const broken = new Error('no such file')
  await assert.rejects(
    until(() => {
      throw broken
    }),
    broken,
  )
})

after(leakCheck)
