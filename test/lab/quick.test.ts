// A short run of the fault lab on memory, local and redis: enough to catch a lock that does not exclude.
import assert from 'node:assert/strict'
import { after, it } from 'node:test'
import { leakCheck } from '../support/leaks.js'
import { faultsIn, liveRuns, reusesIn } from './support/live-runs.js'

const reports = liveRuns({
  memory: '--seed 11 --seconds 2 --acquisitions 5000 --brisk',
  local: '--seed 12 --seconds 3 --acquisitions 1000 --brisk',
  redis: '--seed 13 --seconds 4',
})

it('together there were at least 15 faults and 6,000 acquisitions', () => {
  const faults = reports.reduce((sum, report) => sum + faultsIn(report), 0)
  const acquisitions = reports.reduce((sum, { counts }) => sum + counts.acquisitions, 0)
  assert.ok(faults >= 15, `${faults} faults`)
  assert.ok(acquisitions >= 6_000, `${acquisitions} acquisitions`)
})

it('locks that had stayed with their process were used again', () => {
  const reuses = reusesIn(reports)
  assert.ok(reuses.length === 2 && reuses.some((count) => count > 0), `${reuses}`)
})

after(leakCheck)
