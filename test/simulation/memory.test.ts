// Schedules under virtual time over the memory driver: none breaks a promise. The seed is fixed, so a
// failure is a failure for everybody; `npm run simulate -- memory --seed N` looks at other schedules.
import '../support/background.js'
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { search, tell } from '../../lab/simulation/search.js'
import { memoryStore } from '../../lab/simulation/stores/memory.js'
import { amount, schedules } from '../support/amounts.js'
import { leakCheck } from '../support/leaks.js'

// Most errors here are a matter of course, and nobody reads where they were made.
Error.stackTraceLimit = 4
const runs = schedules['simulation/memory'][amount]

test(`memory: ${runs.toLocaleString('en')} schedules break nothing`, async () => {
  const kind = memoryStore
  const found = await search(kind, runs, 1)
  if (found.plan !== undefined) assert.fail(await tell(found.plan, kind))
  assert.ok(found.runs >= runs)
})

after(leakCheck)
