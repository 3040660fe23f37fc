/** The worker processes, controlled by the lab: restarted when killed, paused, given orders, stopped. */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import type { Recorder } from 'holdfast/verify'
import { until } from '../../test/support/until.js'
import { makeGuard } from './guard.js'
import type { Order, Task, WorkerReport } from './workload.js'

/** Maximum start-up time of a child on a busy machine, in ms. */
const startUp = 30_000
/** Maximum time to reach the requested number of acquisitions, in ms; an otherwise idle machine needs seconds. */
const roundTimeout = 300_000

export interface WorkerPool {
  readonly size: number
  pid(n: number): number | undefined
  send(n: number, order: Order): void
  /** Resolves when the pause has begun. */
  pause(n: number): void
  resume(n: number): void
  /** With -9, recorded as the worker's end; another takes its place at once. Resolves when the process is gone. */
  kill(n: number): Promise<void>
  /** Adds a process that has never connected to the store. @returns a function that ends it: it finishes what it is doing. */
  join(n: number): () => Promise<void>
  /** Resolves after that many acquisition requests, those of dead workers included, or after a crash. */
  asked(count: number): Promise<void>
  /** Resolves when every worker has its clients. */
  ready(): Promise<void>
  /**
   * Lets them finish what they are doing.
   * @param within in ms; asked again when it is over @param stuck called once, before the first that does not is ended
   * @returns the problems, if any
   */
  finish(within: () => number, stuck: () => Promise<void>): Promise<string[]>
  end(): void
}

interface Member {
  readonly child: ChildProcess
  ready: boolean
  /** It was ordered to end. */
  leaving: boolean
}

// Longer than a function should be: everything here shares the list of processes.
export function startWorkers(
  size: number,
  journal: Recorder,
  taskOf: (n: number, round: number) => Task,
): WorkerPool {
  const guard = makeGuard()
  const complaints: string[] = []
  let started = 0
  let ending = false
  let asked = 0
  const start = (n: number): Member => {
    const file = fileURLToPath(new URL('./worker.js', import.meta.url))
    const child = fork(file, [JSON.stringify(taskOf(n, ++started))], {
      execArgv: ['--enable-source-maps'],
      stdio: ['ignore', 'inherit', 'pipe', 'ipc'],
    })
    const member: Member = { child, ready: false, leaving: false }
    let output = ''
    child.stderr?.on('data', (chunk) => {
      output = (output + chunk).slice(-2000)
    })
    child.on('message', (told: WorkerReport) => {
      if (told.is === 'ready') member.ready = true
      else if (told.is === 'asked') asked += told.more
      else send(child, { do: 'answer', id: told.id, answer: guard(told) })
    })
    child.on('exit', (code, signal) => {
      if (signal === 'SIGKILL') return
      if (code === 0 && (ending || member.leaving)) return
      // The worker crashed: nobody claims what it held any more. A worker that ended normally is judged by what it wrote.
      journal.fault('kill', child.pid)()
      if (code === 0) complaints.push(`worker ${n} ended too early: ${output}`)
      else complaints.push(`worker ${n} ended with ${code ?? signal}: ${output}`)
    })
    return member
  }
  const latecomers = new Set<Member>()
  const members = Array.from({ length: size }, (_, n) => start(n))
  const member = (n: number): Member => {
    const found = members[n]
    if (found === undefined) throw new RangeError(`there is no worker ${n}`)
    return found
  }
  return {
    size,
    async asked(count) {
      const enough = () => asked >= count || complaints.length > 0
      await until(enough, { within: roundTimeout, every: 50, what: `${count} acquisitions to be asked for` })
    },
    pid: (n) => member(n).child.pid,
    send: (n, order) => send(member(n).child, order),
    pause: (n) => void member(n).child.kill('SIGSTOP'),
    resume: (n) => void member(n).child.kill('SIGCONT'),
    async kill(n) {
      const { child } = member(n)
      const dead = journal.fault('kill', child.pid)
      await ended(child, () => child.kill('SIGKILL'))
      dead()
      // Two calls at once kill the same process.
      if (member(n).child === child) members[n] = start(n)
    },
    join(n) {
      const latecomer = start(n)
      latecomers.add(latecomer)
      return async () => {
        const started = () => latecomer.ready || latecomer.child.exitCode !== null || ending
        await until(started, { within: startUp, every: 5, what: 'a process that joins late to start' })
        if (ending) return
        latecomer.leaving = true
        send(latecomer.child, { do: 'stop' })
      }
    },
    async ready() {
      const all = () => members.every((one) => one.ready) || complaints.length > 0
      await until(all, { within: startUp, every: 5, what: 'every worker to start' })
    },
    async finish(within, stuck) {
      ending = true
      let told: Promise<void> | undefined
      await Promise.all(
        [...members, ...latecomers].map(async ({ child }, n) => {
          const began = performance.now()
          let late: NodeJS.Timeout
          const look = () => {
            const left = began + within() - performance.now()
            if (left > 0) {
              late = setTimeout(look, left)
              return
            }
            complaints.push(`worker ${n} did not finish within ${within()} ms`)
            told ??= stuck()
            void told.finally(() => child.kill('SIGKILL'))
          }
          late = setTimeout(look, within())
          await ended(child, () => send(child, { do: 'stop' }))
          clearTimeout(late)
        }),
      )
      return complaints
    },
    end() {
      ending = true
      for (const { child } of [...members, ...latecomers]) child.kill('SIGKILL')
    },
  }
}

function send(child: ChildProcess, order: Order): void {
  // A process that has just been killed has no channel any more.
  if (child.connected) child.send(order, () => undefined)
}

async function ended(child: ChildProcess, act: () => void): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const exit = once(child, 'exit')
  act()
  await exit
}
