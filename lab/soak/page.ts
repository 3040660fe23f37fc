/** The result of a soak: JSON for machines, a page for people. */
import { execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { availableParallelism, cpus, totalmem } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Row } from './runs.js'
import type { Simulated } from './schedules.js'

export interface Result {
  readonly at: string
  readonly hours: number
  readonly machine: object
  readonly commit: string
  readonly rows: readonly Row[]
  readonly simulation: Simulated
  /** The rule that caught each canary. */
  readonly canaries: Readonly<Record<string, string>>
  readonly runs: readonly object[]
}

export const missed = 'NOT CAUGHT'
const root = fileURLToPath(new URL('../../..', import.meta.url))

export function isBad({ rows, simulation, canaries }: Result): boolean {
  return (
    rows.some(({ violations, complaints }) => violations + complaints > 0) ||
    simulation.failures.length > 0 ||
    Object.values(canaries).includes(missed)
  )
}

export function write(result: Result, folder: string): void {
  mkdirSync(folder, { recursive: true })
  const name = result.at.slice(0, 16).replace(/[:T]/g, '-')
  // Stacks of processes that ended reveal the path of this checkout.
  const text = JSON.stringify(result, undefined, 1).replaceAll(root, '')
  writeFileSync(join(folder, `${name}.json`), `${text}\n`)
  writeFileSync(join(folder, `${name}.md`), page(result))
  console.log(`\n${page(result)}\n${join(folder, `${name}.json`)}`)
}

const n = (value: number) => value.toLocaleString('en')

function page({ at, hours, rows, simulation, canaries }: Result): string {
  const sum = (what: 'faults' | 'acquisitions' | 'violations') =>
    rows.reduce((total, row) => total + row[what], 0)
  const all = Object.values(simulation.schedules).reduce((total, count) => total + count, 0)
  const birds = Object.values(canaries)
  const caught = birds.filter((rule) => rule !== missed).length
  return [
    `# Soak of ${at.slice(0, 10)}`,
    '',
    `${hours.toFixed(2)} hours: ${n(sum('faults'))} faults, ${n(sum('acquisitions'))} acquisitions, ${n(all)} simulated schedules, ${sum('violations') + simulation.failures.length} violations, ${caught}/${birds.length} canaries caught.`,
    '',
    '| driver | runs | faults | acquisitions | granted | violations | excused | not done |',
    '|---|---|---|---|---|---|---|---|',
    ...rows.map(
      (row) =>
        `| ${row.driver} | ${row.runs} | ${n(row.faults)} | ${n(row.acquisitions)} | ${n(row.granted)} | ${row.violations} | ${row.excused} | ${row.complaints} |`,
    ),
    '',
    '| schedules over | played | ms of a processor for each |',
    '|---|---|---|',
    ...Object.entries(simulation.schedules).map(
      ([kind, count]) =>
        `| ${kind} | ${n(count)} | ${((1000 * (simulation.seconds[kind] ?? 0)) / count).toFixed(2)} |`,
    ),
    ...(simulation.failures.length > 0
      ? ['', ...simulation.failures.map((text) => `\`\`\`\n${text}\n\`\`\``)]
      : []),
    '',
  ].join('\n')
}

export const machine = (): Pick<Result, 'machine' | 'commit'> => ({
  machine: {
    cpu: cpus()[0]?.model ?? 'unknown',
    threads: availableParallelism(),
    memory: totalmem(),
    node: process.version,
  },
  commit: commit(),
})

function commit(): string {
  try {
    return execFileSync('git', ['rev-parse', 'HEAD'], { cwd: root, encoding: 'utf8' }).trim()
  } catch {
    const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string }
    return `version ${version}`
  }
}
