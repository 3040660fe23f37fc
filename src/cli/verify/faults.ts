/**
 * A fault run that harms only itself: it pauses, blocks and kills its own processes and cuts their connections on our side; the store is
 * only asked for locks with names that nobody else uses.
 */
import { type ChildProcess, fork } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { createLocks, type DriverFactory } from 'holdfast'
import { check, printViolation, type Recorder, readHistory, recorder } from 'holdfast/verify'
import type { Order, Task } from './worker.js'

export interface FaultResult {
  readonly seconds: number
  readonly faults: Readonly<Record<string, number>>
  readonly acquisitions: number
  readonly granted: number
  readonly lost: number
  readonly violations: readonly { readonly rule: string; readonly message: string; readonly story: string }[]
  readonly complaints: readonly string[]
}

export interface FaultOptions {
  readonly url: string
  readonly seconds: number
  readonly ttl: number
  /** For the final inspection. */
  readonly direct: DriverFactory
  readonly tell: (line: string) => void
}

const size = 4
/** Maximum start-up time of a process on a busy machine, in ms; slower ones are not waited for. */
const startUp = 30_000
/** How long a store may list a waiter that was killed, in ms. */
const deadWaiter = 12_000
const names = ['ledger', 'stock', 'page', 'seats']

export async function runFaults(options: FaultOptions): Promise<FaultResult> {
  const { url, seconds, ttl, tell } = options
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-verify-'))
  const task: Task = { url, folder, ttl, prefix: `holdfast-verify/${randomBytes(6).toString('hex')}/` }
  const journal = recorder(join(folder, 'nemesis.jsonl'), { label: 'nemesis' })
  const complaints: string[] = []
  const start = () => spawned(task, journal, complaints)
  const workers = Array.from({ length: size }, start)
  const faults: Record<string, number> = {}
  try {
    tell('faults: starting')
    await Promise.all(workers.map(begun))
    const ends = performance.now() + seconds * 1000
    while (performance.now() < ends) {
      tell(`faults: ${Math.ceil((ends - performance.now()) / 1000)} s to go`)
      const kind = await one(workers, journal, start, ttl)
      faults[kind] = (faults[kind] ?? 0) + 1
      await pause(100 + 400 * Math.random())
    }
    tell('waiting for everybody to finish')
    await Promise.all(workers.map((worker) => finished(worker, complaints)))
    await lookAround(options.direct, task.prefix, journal, 4 * ttl + deadWaiter)
    return { seconds, faults, complaints, ...judged(folder, ttl) }
  } finally {
    for (const worker of workers) worker.kill('SIGKILL')
    journal.close()
    rmSync(folder, { recursive: true, force: true })
  }
}

function spawned(task: Task, journal: Recorder, complaints: string[]): ChildProcess {
  const file = fileURLToPath(new URL('./worker.js', import.meta.url))
  const child = fork(file, [], { execArgv: [], stdio: ['ignore', 'ignore', 'pipe', 'ipc'] })
  // Not as an argument: everybody on the machine can read arguments, and the URL may contain a password.
  child.send(task, () => undefined)
  let said = ''
  child.stderr?.on('data', (chunk) => {
    said = (said + chunk).slice(-1_000)
  })
  child.on('exit', (code) => {
    if (code === 0 || code === null) return
    journal.fault('kill', child.pid)()
    complaints.push(`a worker ended with ${code}: ${said}`)
  })
  return child
}

/** Resolves at the first grant, so that a slow machine is not judged by an empty run. */
function begun(worker: ChildProcess): Promise<void> {
  return new Promise((resolve) => {
    const over = () => {
      clearTimeout(late)
      worker.off('message', over).off('exit', over)
      resolve()
    }
    const late = setTimeout(over, startUp)
    worker.on('message', over).on('exit', over)
  })
}

/** Does one thing to one worker, then undoes it. */
async function one(
  workers: ChildProcess[],
  journal: Recorder,
  start: () => ChildProcess,
  ttl: number,
): Promise<string> {
  const n = Math.floor(Math.random() * workers.length)
  const worker = workers[n] as ChildProcess
  const lasts = ttl * (0.1 + 1.9 * Math.random())
  const way = Math.floor(Math.random() * 4)
  const kind = (['kill', 'pause', 'block', 'cut'] as const)[way] ?? 'pause'
  const over = journal.fault(kind, worker.pid)
  if (kind === 'kill') {
    const gone = worker.exitCode === null && worker.signalCode === null ? once(worker, 'exit') : undefined
    worker.kill('SIGKILL')
    await gone
    workers[n] = start()
  } else if (kind === 'pause') {
    worker.kill('SIGSTOP')
    await pause(lasts)
    worker.kill('SIGCONT')
  } else {
    send(worker, kind === 'block' ? { do: 'block', ms: lasts } : { do: 'cut' })
    await pause(lasts)
    if (kind === 'cut') send(worker, { do: 'heal' })
  }
  over()
  return kind
}

function send(worker: ChildProcess, order: Order): void {
  if (worker.connected) worker.send(order, () => undefined)
}

async function finished(worker: ChildProcess, complaints: string[]): Promise<void> {
  if (worker.exitCode !== null || worker.signalCode !== null) return
  const exit = once(worker, 'exit')
  const late = setTimeout(() => {
    complaints.push('a worker did not finish within 30 s')
    worker.kill('SIGKILL')
  }, 30_000)
  send(worker, { do: 'stop' })
  await exit
  clearTimeout(late)
}

async function lookAround(
  direct: DriverFactory,
  prefix: string,
  journal: Recorder,
  within: number,
): Promise<void> {
  const locks = createLocks(direct)
  const left = async (name: string) => {
    const { holders, waiters } = await locks.inspect(`${prefix}${name}`)
    const held = holders.filter((one) => one.expiresIn > 0).length
    return { holders: held, waiters: waiters.length, overdue: holders.length - held }
  }
  try {
    const ends = performance.now() + within
    for (const name of names) {
      let found = await left(name)
      for (; found.holders + found.waiters > 0 && performance.now() < ends; found = await left(name))
        await pause(50)
      const { holders, waiters } = found
      journal.write({ op: 'standing', phase: 'info', name: `${prefix}${name}`, holders, waiters })
      // A store may list the hold of a killed process until another client takes the lock. Leave nothing behind to puzzle an operator.
      if (found.overdue > 0 && holders === 0)
        await (await locks.mutex(`${prefix}${name}`).tryAcquire())?.release()
    }
  } finally {
    await locks.close()
  }
}

function judged(folder: string, ttl: number) {
  const history = readHistory(folder)
  const { acquisitions } = history
  // A waiter whose process was touched may lose its queue entry, and a fault may outlast a wait: conformance checks the order instead.
  const found = check(history, {
    fifo: false,
    falseBusy: { lag: 3 * ttl },
    liveness: { within: 4 * ttl + 10_000 },
  })
  return {
    acquisitions: acquisitions.length,
    granted: acquisitions.filter((one) => one.granted !== undefined).length,
    lost: acquisitions.filter((one) => one.lost !== undefined).length,
    violations: found.map((one) => ({ rule: one.rule, message: one.message, story: printViolation(one) })),
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
