/** The worker processes as the lab sees them: started again when killed, paused, asked, stopped. */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import type { Recorder } from 'holdfast/verify'
import { until } from '../../test/support/until.js'
import { makeGuard } from './guard.js'
import type { Order, Task, Told } from './workload.js'

/** What a child may take to start on a busy machine, in ms. */
const startUp = 30_000
/** How long it may take to ask for as many acquisitions as are wanted, in ms; a machine that does nothing else needs seconds. */
const patience = 300_000

export interface Crew {
  readonly size: number
  pid(n: number): number | undefined
  send(n: number, order: Order): void
  /** Resolves when it has begun. */
  pause(n: number): void
  resume(n: number): void
  /** With -9, and written down as the end of it; another takes its place at once. Resolves when it is gone. */
  kill(n: number): Promise<void>
  /** So many acquisitions have been asked for, by the dead ones, too; or one has crashed. */
  asked(count: number): Promise<void>
  /** Every worker has its clients. */
  ready(): Promise<void>
  /** Lets them finish what they are doing. @returns what went wrong, if anything */
  finish(within: number): Promise<string[]>
  end(): void
}

interface Member {
  readonly child: ChildProcess
  ready: boolean
}

// Longer than a function should be: everything here shares the list of processes.
export function makeCrew(size: number, journal: Recorder, taskOf: (n: number, round: number) => Task): Crew {
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
    const member = { child, ready: false }
    let said = ''
    child.stderr?.on('data', (chunk) => {
      said = (said + chunk).slice(-2000)
    })
    child.on('message', (told: Told) => {
      if (told.is === 'ready') member.ready = true
      else if (told.is === 'asked') asked += told.more
      else send(child, { do: 'answer', id: told.id, answer: guard(told) })
    })
    child.on('exit', (code, signal) => {
      if (signal === 'SIGKILL') return
      if (code === 0 && ending) return
      // It crashed: whatever it held, nobody claims any more. One that has come to its end is judged by what it wrote.
      journal.fault('kill', child.pid)()
      if (code === 0) complaints.push(`worker ${n} ended too early: ${said}`)
      else complaints.push(`worker ${n} ended with ${code ?? signal}: ${said}`)
    })
    return member
  }
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
      await until(enough, { within: patience, every: 50, what: `${count} acquisitions to be asked for` })
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
      // Two that come at once kill the same one.
      if (member(n).child === child) members[n] = start(n)
    },
    async ready() {
      const all = () => members.every((one) => one.ready) || complaints.length > 0
      await until(all, { within: startUp, every: 5, what: 'every worker to start' })
    },
    async finish(within) {
      ending = true
      await Promise.all(
        members.map(async ({ child }, n) => {
          const late = setTimeout(() => {
            complaints.push(`worker ${n} did not finish within ${within} ms`)
            child.kill('SIGKILL')
          }, within)
          await ended(child, () => send(child, { do: 'stop' }))
          clearTimeout(late)
        }),
      )
      return complaints
    },
    end() {
      ending = true
      for (const { child } of members) child.kill('SIGKILL')
    },
  }
}

function send(child: ChildProcess, order: Order): void {
  // One that has just been killed has no channel any more.
  if (child.connected) child.send(order, () => undefined)
}

async function ended(child: ChildProcess, act: () => void): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const exit = once(child, 'exit')
  act()
  await exit
}
