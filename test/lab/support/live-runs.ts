// Runs of the fault lab with fixed seeds, each in a process of its own, for the files that judge them.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'

/** What is asserted of `report.json`. */
export interface Report {
  readonly faults: Readonly<Record<string, number>>
  readonly counts: { readonly acquisitions: number }
  readonly violations: readonly { readonly message: string }[]
  readonly complaints: readonly string[]
  readonly caching?: { readonly reused: number }
  readonly took: number
}

/** What a failure prints, so that a run that comes once need not come again to be understood. */
function reportIn(folder: string): string {
  const file = join(folder, 'report.md')
  return existsSync(file) ? readFileSync(file, 'utf8') : 'no report'
}

const main = fileURLToPath(new URL('../../../lab/faults/main.js', import.meta.url))
const folder = mkdtempSync(join(tmpdir(), 'holdfast-live-'))
after(() => rmSync(folder, { recursive: true, force: true }))
/** How often a lock that had stayed with its process was used again, by runs where locks do that. */
export const reusesIn = (reports: readonly Report[]): number[] =>
  reports.flatMap(({ caching }) => caching?.reused ?? [])

export const faultsIn = ({ faults }: Report): number =>
  Object.values(faults).reduce((total, count) => total + count, 0)

/** Registers a test for each run, by the lab's name of its store; the reports are complete once they are over. */
export function liveRuns(runs: Readonly<Record<string, string>>): readonly Report[] {
  const reports: Report[] = []
  describe('under faults no checker finds anything, and the lab comes to its end:', {
    concurrency: 2,
  }, () => {
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
        test.diagnostic(
          `${faultsIn(report)} faults, ${counts.acquisitions} acquisitions, ${took.toFixed(1)} s`,
        )
      })
    }
  })
  return reports
}
