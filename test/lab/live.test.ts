// Real servers, real client processes, real faults: every history is checked, and a failure says how to repeat the run.
// Runs alone because its checkers bound how long a wait may take once the faults are over, and Sentinels that get no processor time demote nobody.
// Second tier because it keeps both processors busy for minutes; quick.test.ts runs a part of it.
import assert from 'node:assert/strict'
import { after, it } from 'node:test'
import { leakCheck } from '../support/leaks.js'
import { faultsIn, liveRuns, type Report, reusesIn } from './support/live-runs.js'

/**
 * Faults are what the plan of a seed says, and acquisitions continue until there are enough: neither depends on how fast the
 * machine is. Where no server is between, a brisk workload makes many acquisitions.
 */
const reports = liveRuns({
  memory: '--seed 11 --seconds 5 --acquisitions 80000 --brisk',
  local: '--seed 12 --seconds 8 --acquisitions 20000 --brisk',
  redis: '--seed 13 --seconds 9',
  'redis-sentinel': '--seed 14 --seconds 9',
  'redis-cluster': '--seed 15 --seconds 9',
  redlock: '--seed 16 --seconds 9',
  zookeeper: '--seed 17 --seconds 6',
  etcd: '--seed 18 --seconds 6',
  consul: '--seed 19 --seconds 6',
})

it('together there were at least 150 faults and 100,000 acquisitions', () => {
  const sum = (of: (report: Report) => number) => reports.reduce((total, one) => total + of(one), 0)
  const faults = sum(faultsIn)
  assert.ok(faults >= 150, `${faults} faults`)
  const acquisitions = sum(({ counts }) => counts.acquisitions)
  assert.ok(acquisitions >= 100_000, `${acquisitions} acquisitions`)
})

it('locks that had stayed with their process were used again', () => {
  const reuses = reusesIn(reports)
  assert.ok(reuses.length === 2 && reuses.every((count) => count > 0), `${reuses}`)
})

after(leakCheck)
