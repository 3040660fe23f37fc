/**
 * Runs of the fault lab, each a process of its own: judging a long history keeps a processor busy for seconds, and proxies and
 * faults of another run must not wait for that. A run that leaves something open reports that itself, and fails.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** The results of the runs of one kind. */
export interface Row {
  readonly driver: string
  runs: number
  faults: number
  acquisitions: number
  granted: number
  violations: number
  excused: number
  /** Faults that could not be injected, workers that crashed, runs that gave no report or did not end. */
  complaints: number
}

export interface Run {
  readonly driver: string
  readonly seed: number
  readonly seconds: number
  /** At full speed, until this many were requested. */
  readonly acquisitions?: number
}

/** The part of `report.json` that is read; all of it except the plan goes into the result. */
interface Report {
  readonly plan?: readonly unknown[]
  readonly faults: Readonly<Record<string, number>>
  readonly counts: { readonly acquisitions: number; readonly granted: number }
  readonly violations: readonly unknown[]
  readonly excused: readonly unknown[]
  readonly complaints: readonly string[]
}

const main = fileURLToPath(new URL('../faults/main.js', import.meta.url))
const ttl = 500
/** How long a run may take beyond the faults themselves, in ms; after that it counts as hung. */
const timeout = 900_000

export class Runs {
  readonly reports: object[] = []
  readonly #rows = new Map<string, Row>()

  get rows(): Row[] {
    return [...this.#rows.values()].sort((a, b) => a.driver.localeCompare(b.driver))
  }

  get acquisitions(): number {
    return this.rows.reduce((sum, row) => sum + row.acquisitions, 0)
  }

  /** @param name the row in which it is counted */
  async one(name: string, run: Run): Promise<void> {
    const out = join('.lab', `${name.replace(/\W+/g, '-')}-${run.seed}`)
    const args = [run.driver, '--seed', `${run.seed}`, '--seconds', `${run.seconds}`, '--ttl', `${ttl}`]
    if (run.acquisitions !== undefined) args.push('--brisk', '--acquisitions', `${run.acquisitions}`)
    const { code, output } = await ended(args, out, run)
    const report = read(join(out, 'report.json'))
    const row = this.#row(name)
    row.runs++
    if (report !== undefined) count(row, report)
    const bad = report === undefined || report.violations.length + report.complaints.length > 0
    // It found nothing, but failed.
    if (report === undefined || (code !== 0 && !bad)) row.complaints++
    const { plan: _, ...short } = report ?? { driver: run.driver, seed: run.seed, said: output }
    this.reports.push({ row: name, again: `npm run faults -- ${args.join(' ')}`, ...short })
    console.log(output.trim())
  }

  #row(driver: string): Row {
    const counts = {
      runs: 0,
      faults: 0,
      acquisitions: 0,
      granted: 0,
      violations: 0,
      excused: 0,
      complaints: 0,
    }
    const row = this.#rows.get(driver) ?? { driver, ...counts }
    this.#rows.set(driver, row)
    return row
  }
}

/** Resolves when the lab's process has exited and all its output has been read. */
async function ended(
  args: readonly string[],
  out: string,
  run: Run,
): Promise<{ code: number; output: string }> {
  const lab = spawn(process.execPath, ['--enable-source-maps', main, ...args, '--out', out])
  let output = ''
  for (const stream of [lab.stdout, lab.stderr]) stream.on('data', (chunk) => (output += chunk))
  const late = setTimeout(() => lab.kill('SIGKILL'), run.seconds * 1000 + timeout)
  await once(lab, 'close')
  clearTimeout(late)
  return { code: lab.exitCode ?? -1, output }
}

function read(file: string): Report | undefined {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as Report
  } catch {
    return undefined
  }
}

function count(row: Row, { faults, counts, violations, excused, complaints }: Report): void {
  for (const times of Object.values(faults)) row.faults += times
  row.acquisitions += counts.acquisitions
  row.granted += counts.granted
  row.violations += violations.length
  row.excused += excused.length
  row.complaints += complaints.length
}
