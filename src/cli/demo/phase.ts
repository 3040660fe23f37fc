/** One half of the demo: worker processes on a fresh file, with or without the lock, and exact counts of the result. */
import { type ChildProcess, fork } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { check, type History, readHistory, type Violation } from 'holdfast/verify'
import { distinct, expectedBalances, type Input } from './input.js'
import { readLedger, writeLedger } from './ledger.js'
import type { FromWorker, Tally, Task } from './worker.js'

export interface PhaseOptions {
  readonly input: Input
  /** Used by this half alone; the caller removes it. */
  readonly folder: string
  readonly workers: number
  readonly lock: Task['lock']
  /** The name in the history. */
  readonly name: string
}

export interface Outcome {
  readonly balances: Readonly<Record<string, number>>
  readonly expected: Readonly<Record<string, number>>
  /** Bookings by all workers. */
  readonly booked: number
  /** Of these: second and further bookings of one order. */
  readonly duplicates: number
  /** Of these: overwritten by a worker that had not seen them. */
  readonly lost: number
  /** Orders that no worker booked. */
  readonly missing: number
  /** Submissions of an order that was already booked. */
  readonly skipped: number
  readonly refused: number
  /** Every balance as expected, every order booked once. */
  readonly exact: boolean
  readonly violations: readonly Violation[]
  readonly history: History
}

/** Timeout after which processes count as stuck, in ms. */
const timeout = 60_000

export async function runPhase(options: PhaseOptions): Promise<Outcome> {
  const { input, folder } = options
  mkdirSync(folder, { recursive: true })
  const ledger = join(folder, 'points.json')
  writeLedger(ledger, { revision: 0, balances: input.balances, applied: [] })
  const tallies = await sumTallies(tasks(options, ledger))
  return evaluate(input, tallies, ledger, readHistory(join(folder, 'history')))
}

/** Deals the orders round-robin, so that the submissions of one order reach different workers at the same time. */
function tasks({ input, folder, workers, lock, name }: PhaseOptions, ledger: string): Task[] {
  const histories = join(folder, 'history')
  mkdirSync(histories)
  return Array.from({ length: workers }, (_, i) => ({
    label: `worker ${i + 1}`,
    ledger,
    history: join(histories, `${i + 1}.jsonl`),
    orders: input.orders.filter((_, j) => j % workers === i),
    lock,
    name,
  }))
}

async function sumTallies(all: readonly Task[]): Promise<Tally[]> {
  const workers = all.map(() =>
    fork(fileURLToPath(new URL('./worker.js', import.meta.url)), { execArgv: [] }),
  )
  try {
    for (const [i, worker] of workers.entries()) worker.send(all[i] as Task)
    await Promise.all(workers.map((worker) => waitForMessage(worker, 'ready')))
    const results = workers.map((worker) => waitForMessage(worker, 'done'))
    for (const worker of workers) worker.send('go')
    const done = await Promise.all(results)
    for (const worker of workers) worker.send('end')
    await Promise.all(workers.map(waitForExit))
    return done.map((message) => (message.type === 'done' ? message.tally : never()))
  } finally {
    for (const worker of workers) worker.kill('SIGKILL')
  }
}

function waitForMessage(worker: ChildProcess, type: FromWorker['type']): Promise<FromWorker> {
  return new Promise((resolve, reject) => {
    const off = () => {
      clearTimeout(timer)
      worker.off('message', onMessage)
      worker.off('exit', onExit)
    }
    const onMessage = (message: unknown) => {
      if ((message as FromWorker).type !== type) return
      off()
      resolve(message as FromWorker)
    }
    const onExit = (code: number | null) => {
      off()
      reject(new Error(`a worker of the demo ended with code ${code} before it was ${type}`))
    }
    const timer = setTimeout(() => {
      off()
      reject(new Error(`a worker of the demo was not ${type} within ${timeout / 1000} s`))
    }, timeout)
    worker.on('message', onMessage)
    worker.on('exit', onExit)
  })
}

function waitForExit(worker: ChildProcess): Promise<void> {
  if (worker.exitCode !== null || worker.signalCode !== null) return Promise.resolve()
  return new Promise((resolve) => worker.once('exit', () => resolve()))
}

function evaluate(input: Input, tallies: readonly Tally[], path: string, history: History): Outcome {
  const { balances, revision } = readLedger(path)
  const expected = expectedBalances(input)
  const applied = tallies.flatMap((tally) => tally.applied)
  const sum = (of: (tally: Tally) => number) => tallies.reduce((all, tally) => all + of(tally), 0)
  const once = new Set(applied)
  const right = Object.entries(expected).every(([account, points]) => balances[account] === points)
  const outcome = {
    balances,
    expected,
    booked: applied.length,
    duplicates: applied.length - once.size,
    lost: applied.length - revision,
    missing: distinct(input.orders).length - once.size,
    skipped: sum((tally) => tally.skipped),
    refused: sum((tally) => tally.refused),
  }
  const { duplicates, lost, missing } = outcome
  const exact = right && duplicates === 0 && lost === 0 && missing === 0
  return { ...outcome, exact, violations: check(history), history }
}

function never(): never {
  throw new Error('received another message than the one expected')
}
