/**
 * A fault run that harms only itself: it pauses, blocks and kills its own processes, among them a `holdfast run`, and cuts their connections on our side; the store is
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
import { findStarvation, type Recorder, readHistory, recorder, watchStarvation } from 'holdfast/verify'
import { harmRun, harmWorker, pause, send } from './harm.js'
import { type Judgement, judge } from './judge.js'
import { runClient } from './run-client.js'
import type { Task } from './worker.js'

export interface FaultResult extends Judgement {
  readonly seconds: number
  readonly faults: Readonly<Record<string, number>>
  /** Commands that `holdfast run` ran under one of the locks; they are among `granted`. */
  readonly commands: number
  readonly complaints: readonly string[]
}

export interface FaultOptions {
  readonly url: string
  readonly insecure: boolean
  readonly seconds: number
  readonly ttl: number
  /** For the final inspection. */
  readonly direct: DriverFactory
  readonly print: (line: string) => void
}

const size = 4
/** Maximum start-up time of a process on a busy machine, in ms; slower ones are not waited for. */
const startUp = 30_000
/** How long a store may list a waiter that was killed, in ms. */
const deadWaiter = 12_000
const names = ['ledger', 'stock', 'page', 'seats']

export async function runFaults(options: FaultOptions): Promise<FaultResult> {
  const { url, insecure, seconds, ttl, print } = options
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-verify-'))
  const task: Task = {
    url,
    insecure,
    folder,
    ttl,
    prefix: `holdfast-verify/${randomBytes(6).toString('hex')}/`,
  }
  const journal = recorder(join(folder, 'nemesis.jsonl'), { label: 'nemesis' })
  const unwatch = watchStarvation(journal)
  const complaints: string[] = []
  const start = () => spawnWorker(task, journal, complaints)
  const workers = Array.from({ length: size }, start)
  const run = runClient(task, `${task.prefix}${names[0]}`, complaints)
  const faults: Record<string, number> = {}
  try {
    print('faults: starting')
    await Promise.all([...workers.map(waitForStart), soon(run.begun)])
    const ends = performance.now() + seconds * 1000
    while (performance.now() < ends) {
      print(`faults: ${Math.ceil((ends - performance.now()) / 1000)} s to go`)
      const kind =
        Math.random() < 1 / (size + 1)
          ? await harmRun(run, journal, ttl)
          : await harmWorker(workers, journal, start, ttl)
      faults[kind] = (faults[kind] ?? 0) + 1
      await pause(100 + 400 * Math.random())
    }
    print('waiting for everybody to finish')
    const [commands] = await Promise.all([
      run.stop(),
      ...workers.map((worker) =>
        waitForEnd(worker, journal, { complaints, folder, within: 4 * ttl + startUp }),
      ),
    ])
    await waitForHolders(options.direct, task.prefix, journal, 4 * ttl + deadWaiter)
    return { seconds, faults, commands, complaints, ...judge(readHistory(folder), ttl) }
  } finally {
    for (const worker of workers) worker.kill('SIGKILL')
    // Its command ends with it.
    void run.stop()
    run.signal('SIGKILL')
    unwatch()
    journal.close()
    rmSync(folder, { recursive: true, force: true })
  }
}

function spawnWorker(task: Task, journal: Recorder, complaints: string[]): ChildProcess {
  const file = fileURLToPath(new URL('./worker.js', import.meta.url))
  const child = fork(file, [], { execArgv: [], stdio: ['ignore', 'ignore', 'pipe', 'ipc'] })
  // Not as an argument: everybody on the machine can read arguments, and the URL may contain a password.
  child.send(task, () => undefined)
  let reply = ''
  child.stderr?.on('data', (chunk) => {
    reply = (reply + chunk).slice(-1_000)
  })
  child.on('exit', (code) => {
    if (code === 0 || code === null) return
    journal.fault('kill', child.pid)()
    complaints.push(`a worker ended with ${code}: ${reply}`)
  })
  return child
}

function soon(event: Promise<void>): Promise<void> {
  return Promise.race([event, new Promise<void>((resolve) => void setTimeout(resolve, startUp).unref())])
}

/** Resolves at the first grant, so that a slow machine is not judged by an empty run. */
function waitForStart(worker: ChildProcess): Promise<void> {
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

interface Patience {
  readonly complaints: string[]
  /** Where the histories are. */
  readonly folder: string
  /**
   * In ms, besides the time in which processes get no processor. Must exceed the longest wait of a worker plus what it holds then, since a
   * store may keep a dead process's lock that long.
   */
  readonly within: number
}

async function waitForEnd(
  worker: ChildProcess,
  journal: Recorder,
  { complaints, folder, within }: Patience,
): Promise<void> {
  if (worker.exitCode !== null || worker.signalCode !== null) return
  const exit = once(worker, 'exit')
  const began = performance.now()
  const look = () => {
    const starvation = findStarvation(readHistory(folder))
    const { end } = starvation.history
    const passed = performance.now() - began
    const more = within - (passed - starvation.within(end - passed * 1e6, end))
    if (more >= 1) {
      late = setTimeout(look, more)
      return
    }
    complaints.push(`a worker did not finish within ${within / 1_000} s`)
    journal.fault('kill', worker.pid)()
    worker.kill('SIGKILL')
  }
  let late = setTimeout(look, within)
  send(worker, { do: 'stop' })
  await exit
  clearTimeout(late)
}

async function waitForHolders(
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
