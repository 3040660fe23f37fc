// Runs the compiled command line as real processes in a private folder, and finds whatever they leave behind there.
import { type SpawnOptions, spawn } from 'node:child_process'
import {
  closeSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { manifest, root } from '../../support/checkout.js'
import { until } from '../../support/until.js'

/** The bundle, as it is published. */
const main = join(root, manifest.bin['holdfast'] ?? '')

export interface Ended {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  readonly stdout: string
  readonly stderr: string
}

export interface Running {
  readonly pid: number
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
  /** Starts bash with a script: `holdfast` is a command in it, `$0` is Node and `$1` is the compiled program. */
  script(text: string, env?: NodeJS.ProcessEnv): Running
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
  const said = join(folder, 'said')
  mkdirSync(said)
  let runs = 0
  const start = (...args: string[]): Running => {
    runs += 1
    return running(join(said, `${runs}`), { cwd: folder, env }, process.execPath, [main, ...args])
  }
  const script = (text: string, more: NodeJS.ProcessEnv = {}): Running => {
    runs += 1
    const whole = `node=$0 main=$1\nholdfast() { "$node" "$main" "$@"; }\n${text}`
    const args = ['--norc', '-c', whole, process.execPath, main]
    return running(join(said, `${runs}`), { cwd: folder, env: { ...env, ...more } }, 'bash', args)
  }
  const left = () => processes().filter((pid) => worksIn(pid, folder))
  return {
    folder,
    url,
    main,
    start,
    script,
    cli: (...args) => start(...args).ended,
    keeperOf: (front) =>
      until(() =>
        childrenOf(front.pid).find((pid) => textOf(pid, 'cmdline').startsWith('holdfast lock process')),
      ),
    left,
    close: () => {
      for (const pid of left()) kill(pid, 'SIGKILL')
      rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
    },
  }
}

/**
 * What it says goes into files. A pipe may still hold words of a process when its end is told, and it has no end of its own as long as
 * somebody who was left behind keeps it open; in a file all that was said is there when the process has ended.
 */
function running(into: string, options: SpawnOptions, file: string, args: readonly string[]): Running {
  const [stdout, stderr] = [`${into}.out`, `${into}.err`]
  const open = [openSync(stdout, 'a'), openSync(stderr, 'a')] as const
  const child = spawn(file, args, { ...options, stdio: ['ignore', ...open] })
  for (const file of open) closeSync(file)
  const heard = { stdout: () => readFileSync(stdout, 'utf8'), stderr: () => readFileSync(stderr, 'utf8') }
  const ended = new Promise<Ended>((resolve, reject) => {
    child.once('error', reject)
    child.once('exit', (code, signal) =>
      resolve({ code, signal, stdout: heard.stdout(), stderr: heard.stderr() }),
    )
  })
  return { pid: child.pid ?? 0, ...heard, ended }
}

/**
 * What it said, but that the store cannot be asked while it waits: that is what it has to say when the machine is paused for longer than
 * a request may take, however well the store is.
 */
export const besidesSilence = (stderr: string): string =>
  stderr.replace(/^holdfast: waiting .*; the store cannot be asked: .*\n/gm, '')

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
