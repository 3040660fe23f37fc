// Kills processes with -9 while they hold locks, wait for them, or serve them to the others, and gives the history that
// all of them wrote. What it says is for the checkers to judge.
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { createLocks, type DriverFactory } from 'holdfast'
import type { ChildClient } from 'holdfast/conformance'
import { type History, readHistory, recorder } from 'holdfast/verify'
import { until } from '../../support/until.js'
import type { Doing, KillTask } from './kill-worker.js'

export interface KillLoopOptions {
  readonly childClient: ChildClient
  /** A client of the same store, to look at what is left at the end. */
  readonly make: () => DriverFactory
  /** The process that serves the others at the moment, for stores that live in one of them. */
  readonly hostOf?: () => number | undefined
  /** Where histories and counters are written. */
  readonly folder: string
  readonly rounds: number
  /** Processes at once. Default 5. */
  readonly workers?: number
  readonly ttl?: number
}

export type Victim = 'holder' | 'waiter' | 'host' | 'anyone'

export interface KillLoopResult {
  readonly history: History
  readonly kills: Readonly<Record<Victim, number>>
}

const names = ['ledger', 'stock', 'seats']
const victims: readonly Victim[] = ['holder', 'waiter', 'host', 'holder', 'anyone', 'host']
/** What a child may take to start on a busy machine, in ms. */
const startUp = 30_000

class Worker {
  readonly child: ChildProcess
  doing: Doing | undefined

  constructor(task: KillTask) {
    const file = fileURLToPath(new URL('./kill-worker.js', import.meta.url))
    this.child = fork(file, [JSON.stringify(task)], {
      execArgv: [],
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    })
    this.child.on('message', (doing: Doing) => {
      this.doing = doing
    })
  }

  get started(): boolean {
    return this.doing !== undefined && this.child.exitCode === null && this.child.signalCode === null
  }
}

export async function killLoop(options: KillLoopOptions): Promise<KillLoopResult> {
  const { childClient, folder, rounds, workers: size = 5, ttl = 5_000 } = options
  const task: KillTask = { childClient, folder, names, ttl }
  const nemesis = recorder(join(folder, 'nemesis.jsonl'), { label: 'nemesis' })
  const kills = { holder: 0, waiter: 0, host: 0, anyone: 0 }
  // One more than needed, so that a killed one need not be waited for.
  let workers = Array.from({ length: size + 1 }, () => new Worker(task))
  const started = () => workers.filter((worker) => worker.started).length
  try {
    for (let round = 0; round < rounds; round++) {
      await until(() => started() >= Math.min(size, 3), {
        within: startUp,
        every: 1,
        what: 'processes to start',
      })
      const wanted = victims[round % victims.length]!
      const { worker, victim } = await choose(wanted, options.hostOf, () => workers)
      kills[victim]++
      const done = nemesis.fault('kill', worker.child.pid)
      worker.child.kill('SIGKILL')
      await once(worker.child, 'exit')
      done()
      workers = [...workers.filter((other) => other !== worker), new Worker(task)]
    }
    await inTime('the processes to finish', finish(workers))
    await inTime('a look at what is left', writeStandings(options.make, nemesis))
  } finally {
    for (const worker of workers) worker.child.kill('SIGKILL')
    nemesis.close()
  }
  return { history: readHistory(folder), kills }
}

/** Somebody who is just doing that, or, if nobody comes to it soon, anybody. */
async function choose(
  wanted: Victim,
  hostOf: KillLoopOptions['hostOf'],
  workers: () => readonly Worker[],
): Promise<{ worker: Worker; victim: Victim }> {
  const is = (worker: Worker, host: number | undefined) => {
    if (wanted === 'host') return worker.child.pid === host
    return wanted === 'anyone' || worker.doing === (wanted === 'holder' ? 'holding' : 'waiting')
  }
  const look = () => {
    const host = wanted === 'host' ? hostOf?.() : undefined
    return workers().find((worker) => worker.started && is(worker, host))
  }
  const found = await until(look, { within: 1_500, every: 1 }).catch(() => undefined)
  if (found !== undefined) return { worker: found, victim: wanted }
  const anyone = await until(() => workers().find((worker) => worker.started), { within: startUp })
  return { worker: anyone, victim: 'anyone' }
}

async function finish(workers: readonly Worker[]): Promise<void> {
  const ends = workers.map(async ({ child }) => {
    if (child.exitCode !== null || child.signalCode !== null) return
    const exited = once(child, 'exit')
    child.send('stop')
    const [code, signal] = await exited
    if (code !== 0) throw new Error(`a worker ended with ${code ?? signal}`)
  })
  await Promise.all(ends)
}

async function inTime(what: string, work: Promise<void>): Promise<void> {
  let over = false
  const done = work.finally(() => {
    over = true
  })
  done.catch(() => undefined)
  await until(() => over, { within: startUp, what })
  await done
}

async function writeStandings(
  make: () => DriverFactory,
  nemesis: ReturnType<typeof recorder>,
): Promise<void> {
  const locks = createLocks(make())
  try {
    for (const name of names) {
      const { holders, waiters } = await locks.inspect(name)
      nemesis.write({ op: 'standing', phase: 'info', name, holders: holders.length, waiters: waiters.length })
    }
  } finally {
    await locks.close()
  }
}

/** How many were killed in the middle of holding, and of waiting, by their own history. */
export function killedWhile(history: History): { holding: number; waiting: number } {
  const dead = history.acquisitions.filter((one) => one.died !== undefined && one.releasing === undefined)
  const holding = dead.filter((one) => one.granted !== undefined && one.lost === undefined).length
  const waiting = dead.filter((one) => one.granted === undefined && one.failed === undefined).length
  return { holding, waiting }
}
