// A server's process: started, watched until it is ready, paused, killed. Knows no particular server.
//
// Every server leads a process group of its own, so children it forks (a background save) are signalled with it, and a
// Ctrl-C in the terminal reaches the test, not the servers. Output goes to a file: a pipe would need this process to read.
// Handles are unreferenced: a server somebody forgot to stop must not keep a test process from ending (and taking the
// server with it, see guardian.sh).
import { type ChildProcess, spawn } from 'node:child_process'
import { closeSync, fstatSync, openSync, readdirSync, readFileSync } from 'node:fs'
import { until } from '../until.js'
import { freePort } from './ports.js'

/** What to run. */
export interface Program {
  /** For messages: `redis7 on port 12345`. */
  readonly name: string
  readonly command: string
  readonly args: readonly string[]
  /** The whole environment but for PATH. */
  readonly env: Readonly<Record<string, string>>
  /** Working directory; inside a folder of `makeFolder`, or the guardian does not see the process. */
  readonly folder: string
  /** File that stdout and stderr are appended to. */
  readonly log: string
  /** Whether it serves, judging by what it logged since its start, or by asking it. */
  readonly ready: (logged: string) => boolean | Promise<boolean>
  /** Default 15 000 ms. */
  readonly readyWithin?: number
  /** Who runs it; default: the user who runs the tests. For servers that refuse to run as root: unprivileged.ts. */
  readonly user?: { readonly uid: number; readonly gid: number } | undefined
}

/** A process that was ready once. */
export interface Running {
  readonly pid: number
  readonly alive: boolean
  /** Whether `end()` was called. */
  readonly isToEnd: boolean
  /** SIGSTOP; returns when every thread is paused. */
  pause(): void
  resume(): void
  /** Sends `signal` (awake first, if paused) and resolves when the process is gone; SIGKILL after `timeout` ms. */
  end(signal: NodeJS.Signals, timeout?: number): Promise<void>
}

/** The server did not come up because its port belongs to someone else. */
export class AddressInUse extends Error {
  override readonly name = 'AddressInUse'
}

/** Runs `start` with a free port, and again with another one when someone else was quicker to take it. */
export async function onFreePort<T>(start: (port: number) => Promise<T>, wanted?: number): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await start(wanted ?? (await freePort()))
    } catch (error) {
      if (wanted !== undefined || tries === 5 || !(error instanceof AddressInUse)) throw error
    }
  }
}

/** All of them, or none: what has started is stopped when one fails. */
export async function startAll<S extends { stop(): Promise<void> }>(
  starts: readonly Promise<S>[],
): Promise<{ readonly servers: readonly S[]; readonly stop: () => Promise<void> }> {
  const started = await Promise.allSettled(starts)
  const servers = started.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []))
  const stop = async () => void (await Promise.all(servers.map((server) => server.stop())))
  const failed = started.find((one) => one.status === 'rejected')
  if (failed === undefined) return { servers, stop }
  await stop()
  throw failed.reason
}

/** With other ports, when one was taken meanwhile. */
export async function onOtherPorts<T>(start: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await start()
    } catch (error) {
      if (tries === 5 || !(error instanceof AddressInUse)) throw error
    }
  }
}

/**
 * Starts a program and resolves when it is ready.
 *
 * @throws AddressInUse when it says that its address is taken; Error with its last words when it ends or is not ready in time.
 */
export async function launch(program: Program): Promise<Running> {
  const log = openSync(program.log, 'a')
  const start = fstatSync(log).size
  const child = spawn(program.command, program.args, {
    cwd: program.folder,
    env: { PATH: process.env['PATH'] ?? '/usr/bin:/bin', LANG: 'C.UTF-8', ...program.env },
    detached: true,
    stdio: ['ignore', log, log],
    ...program.user,
  })
  closeSync(log)
  child.unref()
  let failure: Error | undefined
  child.once('error', (error) => {
    failure = error
  })
  const running = control(child)
  const logged = (): string => readFileSync(program.log).subarray(start).toString()
  try {
    const state = async (): Promise<'ready' | 'gone' | false> => {
      if (failure || !running.alive) return 'gone'
      return (await program.ready(logged())) && 'ready'
    }
    const within = program.readyWithin ?? 15_000
    const reached = await until(state, { within, what: `${program.name} to be ready` })
    if (reached === 'ready') {
      reportDeath(program.name, child, running, logged)
      return running
    }
    throw failure ?? new Error(`${program.name} ended with ${child.exitCode ?? child.signalCode}`)
  } catch (error) {
    if (child.pid !== undefined) await running.end('SIGKILL')
    throw explain(error as Error, logged())
  }
}

/** A server that ends by itself fails whatever uses it, in words that speak of something else: its own words belong beside them. */
function reportDeath(name: string, child: ChildProcess, running: Running, logged: () => string): void {
  const report = () => {
    if (running.isToEnd) return
    const words = logged().trimEnd().split('\n').slice(-60).join('\n')
    console.error(
      `${name} ended by itself with ${child.exitCode ?? child.signalCode}; its last words:\n${words}`,
    )
  }
  if (running.alive) child.once('exit', report)
  else report()
}

function explain(error: Error, logged: string): Error {
  const words = logged.trimEnd().split('\n').slice(-15).join('\n')
  const Kind = /address already in use/i.test(logged) ? AddressInUse : Error
  return new Kind(`${error.message}; its last words:\n${words || '(none)'}`, { cause: error })
}

function control(child: ChildProcess): Running {
  const gone = new Promise<void>((resolve) => child.once('exit', () => resolve()))
  let isToEnd = false
  const alive = (): boolean => child.pid !== undefined && child.exitCode === null && child.signalCode === null
  const signal = (name: NodeJS.Signals): void => {
    if (child.pid === undefined || !alive()) return
    process.kill(-child.pid, name)
  }
  return {
    get pid() {
      if (child.pid === undefined) throw new Error('the process was never started')
      return child.pid
    },
    get alive() {
      return alive()
    },
    get isToEnd() {
      return isToEnd
    },
    pause: () => {
      signal('SIGSTOP')
      if (child.pid !== undefined && alive()) awaitStandstill(child.pid)
    },
    resume: () => signal('SIGCONT'),
    end: async (name, timeout = 5000) => {
      isToEnd = true
      if (!alive()) return
      child.ref()
      const late = setTimeout(signal, timeout, 'SIGKILL')
      signal(name)
      if (name !== 'SIGKILL') signal('SIGCONT')
      await gone
      clearTimeout(late)
    },
  }
}

/**
 * Returns once every thread of a process that was sent SIGSTOP is paused. Busy on purpose: it takes microseconds, and the very next line of a test
 * may rely on it.
 */
export function awaitStandstill(pid: number): void {
  const giveUp = performance.now() + 2000
  const stopped = (task: string): boolean => /^\d+ \(.*\) [TtZ]/s.test(readState(pid, task))
  while (!listThreads(pid).every(stopped)) {
    if (performance.now() > giveUp) throw new Error(`process ${pid} did not stop within 2 s of SIGSTOP`)
  }
}

function listThreads(pid: number): string[] {
  try {
    return readdirSync(`/proc/${pid}/task`)
  } catch (error) {
    if (['ENOENT', 'ESRCH'].includes((error as NodeJS.ErrnoException).code ?? '')) return []
    throw error
  }
}

/** A thread that has ended since the list was read is paused, too. */
function readState(pid: number, task: string): string {
  try {
    return readFileSync(`/proc/${pid}/task/${task}/stat`, 'utf8')
  } catch (error) {
    if (['ENOENT', 'ESRCH'].includes((error as NodeJS.ErrnoException).code ?? '')) return '0 () Z'
    throw error
  }
}
