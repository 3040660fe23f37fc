/** One run of the lab: start servers and workers, inject faults by plan, undo them all, let every worker finish, judge the history. */
import { createHash } from 'node:crypto'
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type History, readHistory, recorder, watchStarvation } from 'holdfast/verify'
import { workerFaults } from './common.js'
import { describeStore } from './describe-store.js'
import { inspectFinally } from './final-inspection.js'
import { nemesis, pause } from './nemesis.js'
import { createPlan, type Planned } from './plan.js'
import type { Fault, LabDriver } from './store.js'
import { watchStore } from './store-watch.js'
import { evaluateRun, type Verdict } from './verdict.js'
import { startWorkers, type WorkerPool } from './workers.js'
import { longest, type Task } from './workload.js'

export interface RunOptions {
  /** Its name in reports. */
  readonly name: string
  /** URL of the module that exports `lab`. */
  readonly module: string
  readonly seed: number
  /** Duration of the faults; starting and settling come on top. */
  readonly seconds: number
  /** Worker processes. @default 4 */
  readonly workers?: number
  /** ttl of all locks, in milliseconds. @default 1_000 */
  readonly ttl?: number
  /** Faults begun per second, on average. @default 3 */
  readonly rate?: number
  /** Only kinds that contain one of these words. Empty: no faults. @default all */
  readonly only?: readonly string[]
  /** No kinds that contain one of these words. @default none */
  readonly except?: readonly string[]
  /** Continues after the faults until this many acquisitions were requested. @default 0 */
  readonly acquisitions?: number
  /** No time is spent under quick locks: more acquisitions, less waiting. @default false */
  readonly brisk?: boolean
  /** Folder for the history files if there are findings. @default nowhere */
  readonly keep?: string
  /** Called every second during the faults; true ends them. For locks that are meant to be caught. `judge` says what counts so far. */
  readonly stopWhen?: (history: History, judge: () => Verdict) => boolean
}

export interface RunResult extends Verdict {
  readonly name: string
  readonly about: string
  readonly seed: number
  readonly seconds: number
  readonly workers: number
  readonly ttl: number
  readonly versions: Readonly<Record<string, string>>
  readonly plan: readonly Planned[]
  /** How often each kind was injected. */
  readonly faults: Readonly<Record<string, number>>
  readonly history: History
  /** Of all history files, in order of their names. */
  readonly sha256: string
  /** From the start of the first process to the end of the last, in seconds. */
  readonly took: number
}

export async function runLab(options: RunOptions): Promise<RunResult> {
  const { name, module, seed, seconds } = options
  const { lab }: { lab: LabDriver } = await import(module)
  const ttl = Math.max(options.ttl ?? 1_000, lab.leastTtl ?? 0)
  const workers = lab.oneProcess === undefined ? (options.workers ?? 4) : 1
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-lab-'))
  const began = performance.now()
  const scratch = mkdtempSync(join(folder, 'store-'))
  const store = await lab.open({ workers, ttl: longest * ttl, folder: scratch })
  const journal = recorder(join(folder, 'nemesis.jsonl'), { label: 'nemesis' })
  const ofWorkers = workerFaults(workers, lab.oneProcess === undefined).map(
    (fault) => store.excused?.(fault) ?? fault,
  )
  const { except = [] } = options
  const drawn = [...ofWorkers, ...store.faults].filter(
    ({ kind }) => !except.some((word) => kind.includes(word)),
  )
  const faults = wanted(drawn, options.only)
  const plan = createPlan(faults, {
    seed,
    span: seconds * 1000,
    ttl,
    ...(options.rate && { rate: options.rate }),
  })
  const { acquisitions = 0, brisk = false } = options
  const task = (n: number, round: number): Task => ({
    module,
    place: store.place(n),
    clients: lab.oneProcess ?? 1,
    lanes: 4,
    brisk,
    ttl,
    folder,
    seed: seed + 1000 * round + n,
    tellsStanding: store.direct === undefined,
    lingers: store.lingers === true,
  })
  let workerPool: WorkerPool | undefined
  const unwatch = watchStarvation(journal)
  try {
    workerPool = startWorkers(workers, journal, task)
    await workerPool.ready()
    const { stopWhen } = options
    const judge = (history: History, complaints: readonly string[] = []) =>
      evaluateRun(history, faults, { ...store, ttl }, complaints)
    const seen =
      stopWhen &&
      (() => {
        const history = readHistory(folder)
        return stopWhen(history, () => judge(history))
      })
    const done = await nemesis(plan, faults, workerPool, { journal, ttl, span: seconds * 1000, seen })
    const { complaints } = done
    if (!done.stopped) await pause(quietPeriod)
    const watch = watchStore(journal, store.answers)
    await workerPool.asked(acquisitions)
    const within = () => store.settles + closeTimeout + Math.min(watch.missing(), storeTimeout)
    complaints.push(...(await workerPool.finish(within, () => describeStore(store, ttl, folder))))
    complaints.push(...(await inspectFinally(store, journal, ttl)))
    await watch.end()
    unwatch()
    const history = readHistory(folder)
    const judged = judge(history, complaints)
    if (judged.violations.length + complaints.length > 0) keep(folder, options.keep)
    return {
      ...judged,
      ...{ name, about: lab.about, seed, seconds, workers, ttl, plan, history },
      versions: { node: process.version, ...store.versions },
      faults: countFaults(plan.slice(0, done.begun)),
      sha256: hashFolder(folder),
      took: (performance.now() - began) / 1000,
    }
  } finally {
    unwatch()
    workerPool?.end()
    journal.close()
    await store.close()
    rmSync(folder, { recursive: true, force: true })
  }
}

function wanted(faults: readonly Fault[], only: readonly string[] | undefined): Fault[] {
  if (only === undefined) return [...faults]
  if (only.length === 0) return []
  const found = faults.filter(({ kind }) => only.some((word) => kind.includes(word)))
  if (found.length > 0) return found
  const known = [...new Set(faults.map(({ kind }) => kind))].join(', ')
  throw new RangeError(`no fault is called like '${only.join("' or '")}'; there are: ${known}`)
}

/** How long the workers continue without faults before they finish, in ms: shows that things come to rest. */
const quietPeriod = 1_500
/** Time a worker may need to finish, beyond the bound of the store, in ms: the machine may be busy. */
const closeTimeout = 20_000
/** How much more it gets while the store answers nobody, in ms. A store that never answers again ends the run with a complaint. */
const storeTimeout = 120_000

function keep(folder: string, to: string | undefined): void {
  const isEvents = (path: string) => path === folder || /\.(jsonl|txt)$/.test(path)
  if (to !== undefined) cpSync(folder, to, { recursive: true, filter: isEvents })
}

function countFaults(plan: readonly Planned[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const { kind } of plan) counts[kind] = (counts[kind] ?? 0) + 1
  return Object.fromEntries(Object.entries(counts).sort(([a], [b]) => a.localeCompare(b)))
}

function hashFolder(folder: string): string {
  const hash = createHash('sha256')
  for (const file of readdirSync(folder).sort()) {
    if (file.endsWith('.jsonl')) hash.update(readFileSync(join(folder, file)))
  }
  return hash.digest('hex')
}
