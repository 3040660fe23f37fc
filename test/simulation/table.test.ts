// Schedules under virtual time over the reference table behind a wire: none breaks a promise. The seed is fixed, so a
// failure is a failure for everybody; `npm run simulate -- table --seed N` looks at other schedules.
import '../support/background.js'
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { search, tell } from '../../lab/simulation/search.js'
import { tableStore } from '../../lab/simulation/stores/table.js'
import { amount, schedules } from '../support/amounts.js'
import { leakCheck } from '../support/leaks.js'

// Most errors here are a matter of course, and nobody reads where they were made.
Error.stackTraceLimit = 4
const runs = schedules['simulation/table'][amount]

test(`table: ${runs.toLocaleString('en')} schedules break nothing`, async () => {
  const kind = tableStore()
  const found = await search(kind, runs, 1)
  if (found.plan !== undefined) assert.fail(await tell(found.plan, kind))
  assert.ok(found.runs >= runs)
})

after(leakCheck)
