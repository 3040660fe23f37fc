// Real servers, real client processes, real faults: every history is checked, and a failure says how to have the run again.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'
import { leakCheck } from '../support/leaks.js'

/**
 * Faults are what the plan of a seed says, and acquisitions go on until there are enough: neither hangs on how fast the
 * machine is. Where no server is between, a brisk workload makes many acquisitions.
 */
const runs: Readonly<Record<string, string>> = {
  memory: '--seed 11 --seconds 5 --acquisitions 80000 --brisk',
  local: '--seed 12 --seconds 8 --acquisitions 20000 --brisk',
  redis: '--seed 13 --seconds 9',
  'redis-sentinel': '--seed 14 --seconds 9',
  'redis-cluster': '--seed 15 --seconds 9',
  redlock: '--seed 16 --seconds 9',
  zookeeper: '--seed 17 --seconds 6',
  etcd: '--seed 18 --seconds 6',
  consul: '--seed 19 --seconds 6',
}

/** What is asserted of `report.json`. */
interface Report {
  readonly faults: Readonly<Record<string, number>>
  readonly counts: { readonly acquisitions: number }
  readonly violations: readonly { readonly message: string }[]
  readonly complaints: readonly string[]
  readonly took: number
}

/** What a failure prints, so that a run that comes once need not come again to be understood. */
function reportIn(folder: string): string {
  const file = join(folder, 'report.md')
  return existsSync(file) ? readFileSync(file, 'utf8') : 'no report'
}

const main = fileURLToPath(new URL('../../lab/faults/main.js', import.meta.url))
const folder = mkdtempSync(join(tmpdir(), 'holdfast-live-'))
after(() => rmSync(folder, { recursive: true, force: true }))
const reports: Report[] = []
const faultsIn = ({ faults }: Report) => Object.values(faults).reduce((total, count) => total + count, 0)

describe('under faults no checker finds anything, and the lab comes to its end:', { concurrency: 2 }, () => {
  for (const [name, options] of Object.entries(runs)) {
    // A process of its own, which ends only when nothing is left open in it.
    it(name, async (test) => {
      const args = [name, ...options.split(' '), '--ttl', '500', '--rate', '6']
      const again = `npm run faults -- ${args.join(' ')}`
      const out = join(folder, name)
      const lab = spawn(process.execPath, ['--enable-source-maps', main, ...args, '--out', out])
      let said = ''
      for (const stream of [lab.stdout, lab.stderr]) stream.on('data', (chunk) => (said += chunk))
      await once(lab, 'close')
      if (lab.exitCode !== 0) assert.fail(`${again}\n${said}\n${reportIn(out)}`)
      const report: Report = JSON.parse(readFileSync(join(out, 'report.json'), 'utf8'))
      reports.push(report)
      assert.deepEqual([...report.violations, ...report.complaints], [], again)
      const { counts, took } = report
      test.diagnostic(`${faultsIn(report)} faults, ${counts.acquisitions} acquisitions, ${took.toFixed(1)} s`)
    })
  }
})

it('together there were at least 150 faults and 100,000 acquisitions', () => {
  const sum = (of: (report: Report) => number) => reports.reduce((total, one) => total + of(one), 0)
  const faults = sum(faultsIn)
  assert.ok(faults >= 150, `${faults} faults`)
  const acquisitions = sum(({ counts }) => counts.acquisitions)
  assert.ok(acquisitions >= 100_000, `${acquisitions} acquisitions`)
})

after(leakCheck)
