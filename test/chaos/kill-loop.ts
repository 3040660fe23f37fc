// Kills processes with -9 while they hold locks, wait for them, or serve them to the others, and gives the history that
// all of them wrote. What it says is for the checkers to judge.
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { createLocks, type DriverFactory } from 'holdfast'
import type { Taker } from 'holdfast/conformance'
import { type History, readHistory, recorder } from 'holdfast/verify'
import { until } from '../support/until.js'
import type { Doing, FromKillWorker, KillTask } from './kill-worker.js'

export interface KillLoopOptions {
  readonly taker: Taker
  /** A client of the same store, to look at what is left at the end. */
  readonly make: () => DriverFactory
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
  #threads = 0

  constructor(task: KillTask) {
    const file = fileURLToPath(new URL('./kill-worker.js', import.meta.url))
    this.child = fork(file, [JSON.stringify(task)], {
      execArgv: [],
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    })
    this.child.on('message', (message: FromKillWorker) => {
      if ('doing' in message) this.doing = message.doing
      else this.#threads += message.hosts ? 1 : -1
    })
  }

  get running(): boolean {
    return this.child.exitCode === null && this.child.signalCode === null
  }

  is(victim: Victim): boolean {
    if (!this.running || this.doing === undefined) return false
    if (victim === 'host') return this.#threads > 0
    return victim === 'anyone' || this.doing === (victim === 'holder' ? 'holding' : 'waiting')
  }
}

export async function killLoop(options: KillLoopOptions): Promise<KillLoopResult> {
  const { taker, folder, rounds, workers: size = 5, ttl = 5_000 } = options
  const task: KillTask = { taker, folder, names, ttl }
  const nemesis = recorder(join(folder, 'nemesis.jsonl'), { label: 'nemesis' })
  const kills = { holder: 0, waiter: 0, host: 0, anyone: 0 }
  // One more than needed, so that a killed one need not be waited for.
  let workers = Array.from({ length: size + 1 }, () => new Worker(task))
  const started = () => workers.filter((worker) => worker.is('anyone')).length
  try {
    for (let round = 0; round < rounds; round++) {
      await until(() => started() >= Math.min(size, 3), {
        within: startUp,
        every: 1,
        what: 'processes to start',
      })
      const victim = victims[round % victims.length]!
      const worker = await choose(victim, () => workers)
      kills[worker.is(victim) ? victim : 'anyone']++
      const done = nemesis.fault('kill', worker.child.pid)
      worker.child.kill('SIGKILL')
      await once(worker.child, 'exit')
      done()
      workers = [...workers.filter((other) => other !== worker), new Worker(task)]
    }
    await finish(workers)
    await writeStandings(options.make, nemesis)
  } finally {
    for (const worker of workers) worker.child.kill('SIGKILL')
    nemesis.close()
  }
  return { history: readHistory(folder), kills }
}

/** Somebody who is just doing that, or, if nobody comes to it soon, anybody. */
async function choose(victim: Victim, workers: () => readonly Worker[]): Promise<Worker> {
  const look = () => workers().find((worker) => worker.is(victim))
  return (
    (await until(look, { within: 1_500, every: 1 }).catch(() => undefined)) ??
    (await until(() => workers().find((worker) => worker.is('anyone')), { within: startUp }))
  )
}

async function finish(workers: readonly Worker[]): Promise<void> {
  const ends = workers.map(async ({ child }) => {
    if (child.exitCode !== null || child.signalCode !== null) return
    const exited = once(child, 'exit')
    child.send('stop')
    const [code, signal] = await exited
    if (code !== 0) throw new Error(`a worker ended with ${code ?? signal}`)
  })
  let ended = false
  const all = Promise.all(ends).finally(() => {
    ended = true
  })
  all.catch(() => undefined)
  await until(() => ended, { within: startUp, what: 'the processes to finish' })
  await all
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
