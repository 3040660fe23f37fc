/** One client of the fault run is the command line: one `holdfast run` after another, whose commands record that they run. */
import { type ChildProcess, spawn } from 'node:child_process'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Recorder, recorder, watchStarvation } from 'holdfast/verify'
import { exits } from '../exit.js'
import type { Task } from './worker.js'

export interface RunClient {
  /** Resolves when the first command has begun, or the first run has ended without one. */
  readonly begun: Promise<void>
  /** The current `holdfast run`. */
  pid(): number | undefined
  /** Signals the current `holdfast run`, not what it has started. */
  signal(signal: NodeJS.Signals): void
  /** Starts no more runs. Resolves when the current one and its command have ended: the number of commands that ran. */
  stop(): Promise<number>
}

/** Ends of a run under faults that are no defect; `null`: killed by us. */
const expected: readonly (number | null)[] = [0, exits.unavailable, exits.conflict, exits.lost, null]

/** How long a run lasts besides its wait, in ms: the start of its processes on a busy machine. */
const startUp = 30_000

/** @param name the lock, which other clients take, too */
export function runClient(task: Task, name: string, complaints: string[]): RunClient {
  const journal = recorder(join(task.folder, 'run.jsonl'), { label: 'run' })
  let stopping = false
  let commands = 0
  let current: ChildProcess | undefined
  let first: () => void = () => undefined
  const begun = new Promise<void>((resolve) => {
    first = resolve
  })
  const loop = async () => {
    for (let n = 1; !stopping; n += 1) {
      const { ended, child } = started(task, journal, { name, attempt: `run:${n}` }, first)
      current = child
      const { code, stderr, ran } = await ended
      if (ran) commands += 1
      first()
      if (!expected.includes(code)) complaints.push(`holdfast run ended with ${code}: ${stderr}`)
    }
    journal.close()
    return commands
  }
  const over = loop()
  return {
    begun,
    pid: () => current?.pid,
    signal: (signal) => void current?.kill(signal),
    stop: () => {
      stopping = true
      return over
    },
  }
}

interface Ended {
  readonly code: number | null
  /** The end of its stderr. */
  readonly stderr: string
  /** Its command has begun. */
  readonly ran: boolean
}

function started(
  { url, insecure, folder, ttl }: Task,
  journal: Recorder,
  about: { readonly name: string; readonly attempt: string },
  begun: () => void,
): { readonly child: ChildProcess; readonly ended: Promise<Ended> } {
  const main = fileURLToPath(new URL('../main.js', import.meta.url))
  const command = fileURLToPath(new URL('./guarded-command.js', import.meta.url))
  const wait = Math.max(3 * ttl, 10_000)
  const options = ['--wait', `${wait}ms`, '--ttl', `${Math.max(ttl, 3_000)}ms`]
  if (insecure) options.push('--insecure')
  const works = `${Math.round(5 + 150 * Math.random())}`
  const run = [main, 'run', about.name, ...options, '--', process.execPath, command]
  journal.write({ op: 'acquire', phase: 'invoke', mode: 'exclusive', wait: wait + startUp, ...about })
  const child = spawn(process.execPath, [...run, join(folder, 'commands.jsonl'), about.attempt, works], {
    // Not as an argument: everybody on the machine can read arguments, and the URL may contain a password.
    env: { ...process.env, HOLDFAST_URL: url },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const unwatch = watchStarvation(journal, child.pid)
  let stderr = ''
  let ran = false
  child.stdout.on('data', () => {
    ran = true
    begun()
  })
  child.stderr.on('data', (chunk) => {
    stderr = (stderr + chunk).slice(-1_000)
  })
  const ended = new Promise<Ended>((resolve, reject) => {
    child.on('error', reject)
    // Not at its exit: the command has the same pipes, so they are closed once it has ended, too.
    child.on('close', (code) => {
      unwatch()
      if (code === 0) journal.write({ op: 'release', phase: 'ok', ...about })
      else if (ran) journal.write({ op: 'lost', phase: 'ok', ...about })
      else journal.write({ op: 'acquire', phase: 'fail', kind: 'ended', ...about })
      resolve({ code, stderr, ran })
    })
  })
  return { child, ended }
}
