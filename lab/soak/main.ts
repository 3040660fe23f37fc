/**
 * Long because it is one walk from the first run to the page.
 *
 * The long run before a release: every driver of the fault lab again and again with new seeds, then the simulation, then the canaries.
 *
 *   npm run soak                         up to two hours
 *   npm run soak -- --minutes 10         less of everything
 *   npm run soak -- --only redis,local   only these drivers
 *   npm run soak -- --seed 1000          the first seed; each run has the next one
 *   npm run soak -- --canaries redlock   only canaries with this word in their names
 *
 * The result goes to lab/results/<date>.json and .md: seeds, versions, counts, hashes of all histories. Ends with 1 on any violation.
 */
import { execFileSync } from 'node:child_process'
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { availableParallelism, cpus, totalmem } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { canaries } from './canaries/mistakes.js'
import { tryCanary } from './canaries/run.js'
import { plain, summaryOf, writeReport } from './faults/report.js'
import { runLab } from './faults/run.js'
import { search, tell } from './simulation/search.js'
import { memoryStore } from './simulation/stores/memory.js'
import { startMachine } from './simulation/stores/redis/machine.js'
import { redisStore } from './simulation/stores/redis/store.js'
import { tableStore } from './simulation/stores/table.js'

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '115' },
    seed: { type: 'string', default: `${Math.floor(Date.now() / 1000)}` },
    only: { type: 'string' },
    canaries: { type: 'string' },
    out: { type: 'string', default: 'lab/results' },
  },
})

const root = fileURLToPath(new URL('../..', import.meta.url))

/** Seconds of faults in one run, and shares of the whole time. */
const stretch = 60
const share = { faults: 0.72, simulation: 0.24 }

const drivers = readdirSync(new URL('./faults/drivers/', import.meta.url))
  .filter((file) => file.endsWith('.js'))
  .map((file) => file.slice(0, -'.js'.length))
  .filter((name) => values.only === undefined || values.only.split(',').includes(name))

interface Row {
  readonly driver: string
  runs: number
  faults: number
  acquisitions: number
  granted: number
  violations: number
  excused: number
  complaints: number
}

async function main(): Promise<void> {
  const minutes = Number(values.minutes)
  if (!(minutes > 0)) throw new RangeError(`--minutes ${values.minutes}: a number above 0 is needed`)
  if (drivers.length === 0) throw new RangeError(`--only ${values.only}: no driver of the lab is called so`)
  const began = performance.now()
  const until = (part: number) => began + minutes * 60_000 * part
  const rows = new Map<string, Row>()
  const runs: object[] = []
  let seed = Number(values.seed)
  const lane = async (queue: () => string) => {
    while (performance.now() < until(share.faults)) runs.push(await one(queue(), seed++, rows, minutes))
  }
  let turn = 0
  const next = () => drivers[turn++ % drivers.length] as string
  await Promise.all([lane(next), lane(next)])
  const left = until(share.faults + share.simulation) - performance.now()
  const simulation = await simulate(seed, Math.max(3_000, left))
  const caught: Record<string, string> = {}
  const birds = Object.keys(canaries).filter((name) => name.includes(values.canaries ?? ''))
  const cage = async () => {
    for (let name = birds.shift(); name !== undefined; name = birds.shift()) {
      caught[name] = (await tryCanary(name, seed++)).caught?.rule ?? 'NOT CAUGHT'
    }
  }
  await Promise.all([cage(), cage()])
  const hours = (performance.now() - began) / 3_600_000
  const result = {
    at: new Date().toISOString(),
    hours,
    machine: machine(),
    commit: commit(),
    rows: [...rows.values()],
    simulation,
    canaries: caught,
    runs,
  }
  write(result)
  const bad =
    result.rows.some(({ violations, complaints }) => violations + complaints > 0) ||
    simulation.failures.length > 0 ||
    Object.values(caught).includes('NOT CAUGHT')
  if (bad) process.exitCode = 1
}

async function one(name: string, seed: number, rows: Map<string, Row>, minutes: number): Promise<object> {
  const module = new URL(`./faults/drivers/${name}.js`, import.meta.url).href
  const folder = join('.lab', `${name}-${seed}`)
  const seconds = Math.min(stretch, 12 * minutes)
  const result = await runLab({ name, module, seed, seconds, ttl: 500, keep: join(folder, 'history') })
  const { history: _, ...rest } = result
  const row = rows.get(name) ?? {
    driver: name,
    runs: 0,
    faults: 0,
    acquisitions: 0,
    granted: 0,
    violations: 0,
    excused: 0,
    complaints: 0,
  }
  rows.set(name, row)
  row.runs++
  row.faults += rest.plan.length
  row.acquisitions += rest.counts.acquisitions
  row.granted += rest.counts.granted
  row.violations += rest.violations.length
  row.excused += rest.excused.length
  row.complaints += rest.complaints.length
  const { verdict } = summaryOf(result)
  console.log(`${name} seed ${seed}: ${verdict}, ${rest.plan.length} faults, ${rest.counts.granted} granted`)
  if (verdict !== 'no violation') console.log(`  ${writeReport(result, folder)}/report.md`)
  const { plan: __, ...short } = plain(result) as { plan: unknown }
  return short
}

interface Simulated {
  schedules: Record<string, number>
  readonly failures: string[]
  /** The first seed; each slice has the next one. */
  readonly seed: number
}

/** Schedules searched at a time. */
const slice = 1_600

async function simulate(seed: number, ms: number): Promise<Simulated> {
  const ends = performance.now() + ms
  const result: Simulated = { schedules: {}, failures: [], seed }
  const machine = await startMachine()
  const kinds = [memoryStore, tableStore(), redisStore(machine)]
  try {
    for (let turn = 0; performance.now() < ends && result.failures.length === 0; turn++) {
      for (const kind of kinds) {
        const { runs, plan } = await search(kind, slice, seed + turn)
        result.schedules[kind.name] = (result.schedules[kind.name] ?? 0) + runs
        if (plan !== undefined) result.failures.push(await tell(plan, kind))
      }
    }
  } finally {
    machine.close()
  }
  return result
}

const sumOf = (counts: Readonly<Record<string, number>>) =>
  Object.values(counts).reduce((sum, count) => sum + count, 0)

interface Result {
  readonly at: string
  readonly hours: number
  readonly rows: readonly Row[]
  readonly simulation: Simulated
  readonly canaries: Readonly<Record<string, string>>
}

function write(result: Result): void {
  const folder = values.out
  mkdirSync(folder, { recursive: true })
  const name = result.at.slice(0, 16).replace(/[:T]/g, '-')
  // Stacks of processes that ended tell where this checkout lies.
  const text = JSON.stringify(result, undefined, 1).replaceAll(root, '')
  writeFileSync(join(folder, `${name}.json`), `${text}\n`)
  writeFileSync(join(folder, `${name}.md`), page(result))
  console.log(`\n${page(result)}\n${join(folder, `${name}.json`)}`)
}

function page({ at, hours, rows, simulation, canaries: caught }: Result): string {
  const sum = (what: 'faults' | 'acquisitions' | 'granted' | 'violations') =>
    rows.reduce((total, row) => total + row[what], 0)
  const n = (value: number) => value.toLocaleString('en')
  const missed = Object.values(caught).filter((rule) => rule === 'NOT CAUGHT').length
  return [
    `# Soak of ${at.slice(0, 10)}`,
    '',
    `${hours.toFixed(2)} hours: ${n(sum('faults'))} faults, ${n(sum('acquisitions'))} acquisitions, ${n(sumOf(simulation.schedules))} simulated schedules, ${sum('violations') + simulation.failures.length} violations, ${Object.keys(caught).length - missed}/${Object.keys(caught).length} canaries caught.`,
    '',
    '| driver | runs | faults | acquisitions | granted | violations | excused | not done |',
    '|---|---|---|---|---|---|---|---|',
    ...rows.map(
      (row) =>
        `| ${row.driver} | ${row.runs} | ${n(row.faults)} | ${n(row.acquisitions)} | ${n(row.granted)} | ${row.violations} | ${row.excused} | ${row.complaints} |`,
    ),
    '',
  ].join('\n')
}

const machine = () => ({
  cpu: cpus()[0]?.model ?? 'unknown',
  threads: availableParallelism(),
  memory: totalmem(),
  node: process.version,
})

function commit(): string {
  try {
    return execFileSync('git', ['rev-parse', 'HEAD'], { cwd: root, encoding: 'utf8' }).trim()
  } catch {
    const url = new URL('../../package.json', import.meta.url)
    return `version ${(JSON.parse(readFileSync(url, 'utf8')) as { version: string }).version}`
  }
}

main().catch((error: unknown) => {
  console.error(`soak: ${error instanceof Error ? error.message : error}`)
  process.exitCode = 1
})
