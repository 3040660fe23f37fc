// Runs the compiled command line as real processes in a private folder, and finds whatever they leave behind there.
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { until } from '../../support/until.js'

const main = fileURLToPath(new URL('../../../src/cli/main.js', import.meta.url))

export interface Ended {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  readonly stdout: string
  readonly stderr: string
}

export interface Running {
  readonly pid: number
  readonly process: ChildProcess
  /** So far. */
  stdout(): string
  stderr(): string
  readonly ended: Promise<Ended>
}

export interface Bench {
  /** Private; working directory of all processes. */
  readonly folder: string
  /** Of the locks. */
  readonly url: string
  /** The compiled program. */
  readonly main: string
  start(...args: string[]): Running
  /** Starts and waits for the end. */
  cli(...args: string[]): Promise<Ended>
  /** The process that holds the lock of a `holdfast run`. */
  keeperOf(front: Running): Promise<number>
  /** Processes that still work in the folder. */
  left(): number[]
  /** Ends and removes everything. */
  close(): void
}

/** @param on the store; default: the embedded driver in the folder */
export function bench(on?: string): Bench {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-cli-'))
  const url = on ?? `local:${join(folder, 'locks')}`
  const env = { ...process.env, HOLDFAST_URL: url, NO_COLOR: '1', FORCE_COLOR: undefined }
  const start = (...args: string[]): Running => {
    const child = spawn(process.execPath, [main, ...args], {
      cwd: folder,
      env,
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    let stdout = ''
    let stderr = ''
    child.stdout.setEncoding('utf8').on('data', (text) => (stdout += text))
    child.stderr.setEncoding('utf8').on('data', (text) => (stderr += text))
    const ended = new Promise<Ended>((resolve) => {
      // A process that was left behind may hold the pipes open; the end of the front is what counts.
      child.once('exit', (code, signal) => setImmediate(() => resolve({ code, signal, stdout, stderr })))
    })
    return { pid: child.pid ?? 0, process: child, stdout: () => stdout, stderr: () => stderr, ended }
  }
  const left = () => processes().filter((pid) => worksIn(pid, folder))
  return {
    folder,
    url,
    main,
    start,
    cli: (...args) => start(...args).ended,
    keeperOf: (front) =>
      until(() => childrenOf(front.pid).find((pid) => textOf(pid, 'cmdline').startsWith('holdfast keeper'))),
    left,
    close: () => {
      for (const pid of left()) kill(pid, 'SIGKILL')
      rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
    },
  }
}

export function kill(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal)
  } catch {
    // It is gone by now.
  }
}

export function alive(pid: number): boolean {
  return /\) [^ZX] /.test(textOf(pid, 'stat'))
}

/** State letters of the kernel: T is stopped. */
export function stateOf(pid: number): string {
  return /\) (\w) /.exec(textOf(pid, 'stat'))?.[1] ?? ''
}

/** What they are, for messages. */
export function describe(pids: readonly number[]): string {
  return pids.map((pid) => `${pid}: ${textOf(pid, 'cmdline').replaceAll('\0', ' ')}`).join('\n')
}

function processes(): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
}

function childrenOf(parent: number): number[] {
  return processes().filter((pid) => textOf(pid, 'stat').split(') ')[1]?.split(' ')[1] === `${parent}`)
}

function worksIn(pid: number, folder: string): boolean {
  try {
    const cwd = readlinkSync(`/proc/${pid}/cwd`)
    return (cwd === folder || cwd.startsWith(`${folder}/`)) && alive(pid)
  } catch {
    return false
  }
}

function textOf(pid: number, file: string): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'utf8')
  } catch {
    return ''
  }
}
