/**
 * Starts the command in its own process group, held back by a gate (see `scripts.ts`) until `open()`.
 *
 * Without a terminal, the command gets its own session. On a terminal a session would cost it `/dev/tty`, ^Z and the shell's job control,
 * so a job-controlling shell starts it instead. A system without /bin/sh starts the command without a gate.
 *
 * Long because the three ways to start a command belong together.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { createInterface, type Interface } from 'node:readline'
import type { Duplex } from 'node:stream'
import { inForeground } from '../tty.js'
import { linesFor, withCallers, withLines } from './descriptors.js'
import { endGroup } from './group.js'
import { gate, job } from './scripts.js'
import { signalNumber } from './signals.js'

export interface Ending {
  /** 128 + n if signal n ended it. */
  readonly code: number
}

export interface Child {
  /** The command's process group. */
  readonly group: number
  /** Lets the command run. */
  open(): void
  /** Ends the gate instead: the command never runs. */
  abandon(): void
  /** Kills the command and everything in its group; resolves once they are gone. No effect if the command never ran. */
  end(): Promise<void>
  /** Continues a stopped job. */
  resume(how: 'fg' | 'bg'): void
  readonly ended: Promise<Ending>
}

/**
 * `job`: a job of its own on the terminal. `session`: a session of its own. `background`: the same, and the command must not read the
 * terminal, where it would take input meant for the shell.
 */
export type JobControl = 'job' | 'session' | 'background'

export function findJobControl(): JobControl {
  if (!process.stdin.isTTY) return 'session'
  if (!inForeground()) return 'background'
  // Other processes in our pipeline may need the terminal: take it only if no pipe is in sight.
  return process.stdout.isTTY ? 'job' : 'session'
}

/** Number of `descriptors.ts` lines that starting the command takes. */
export function lineCount(jobControl: JobControl): number {
  return jobControl === 'job' ? 3 : 1
}

type Stdin = 'inherit' | 'ignore'

const sh = '/bin/sh'

/**
 * @param onStopped called when the job was stopped from the terminal; only for a `job`
 * @throws Error if the process cannot be started.
 */
export async function startChild(
  command: readonly string[],
  env: NodeJS.ProcessEnv,
  jobControl: JobControl,
  onStopped: () => void,
): Promise<Child> {
  const stdin = jobControl === 'background' ? 'ignore' : 'inherit'
  if (process.platform === 'win32' || !existsSync(sh)) return startUngated(command, env, stdin)
  const started = jobControl === 'job' ? await startJob(command, env, onStopped) : undefined
  return started ?? (await startGated(command, env, stdin))
}

async function startGated(argv: readonly string[], env: NodeJS.ProcessEnv, stdin: Stdin): Promise<Child> {
  const { file, flags } = shellFor(env, sh)
  const [line = 3] = linesFor(lineCount('session'))
  const child = spawn(file, [...flags, '-c', gate(line), 'sh', ...argv], {
    env,
    detached: true,
    stdio: withCallers(withLines([stdin, 'inherit', 'inherit'], line)),
  })
  const group = await waitForPid(child)
  return {
    group,
    ...createGate(child, line),
    end: () => endGroup(group),
    resume: () => undefined,
    ended: waitForEnding(child),
  }
}

/** `undefined`: this shell has no job control here. */
async function startJob(
  argv: readonly string[],
  env: NodeJS.ProcessEnv,
  onStopped: () => void,
): Promise<Child | undefined> {
  // dash and its relatives work best; bash as sh works, too.
  const { file, flags } = shellFor(env, existsSync('/bin/dash') ? '/bin/dash' : sh)
  const [gateLine = 3, jobLine = 4, errors = 5] = linesFor(lineCount('job'))
  const child = spawn(
    file,
    [...flags, '-c', job(gateLine, jobLine, errors), file, flags[0] ?? '+x', ...argv],
    {
      env,
      stdio: withCallers(withLines(['inherit', 'inherit', 'inherit'], gateLine, jobLine)),
    },
  )
  const line = descriptorStream(child, jobLine)
  const lines = createInterface({ input: line })
  const ended = waitForJob(child, lines)
  const group = await new Promise<number | undefined>((resolve, reject) => {
    lines.on('line', (text) => {
      if (text === 'stopped') onStopped()
      else if (text === 'no jobs') resolve(undefined)
      else if (text.startsWith('group ')) resolve(Number(text.slice('group '.length)))
    })
    ended.then((ending) => reject(new EarlyExitError(ending)), reject)
  })
  if (group === undefined) return undefined
  return {
    group,
    ...createGate(child, gateLine),
    end: () => endGroup(group),
    resume: (how) => void line.write(`${how}\n`),
    ended,
  }
}

/** The shell that should start the command ended first; code 130: by ^C. */
export class EarlyExitError extends Error {
  override readonly name = 'EndedEarly'
  readonly ending: Ending
  constructor(ending: Ending) {
    super(`the shell that should start the command ended with code ${ending.code}`)
    this.ending = ending
  }
}

/** Without a gate the command runs at once: for a moment, only this process could end it. */
async function startUngated(
  command: readonly string[],
  env: NodeJS.ProcessEnv,
  stdin: Stdin,
): Promise<Child> {
  const [file = '', ...args] = command
  const child = spawn(file, args, {
    env,
    detached: process.platform !== 'win32',
    stdio: withCallers([stdin, 'inherit', 'inherit']),
  })
  const group = await waitForPid(child)
  const nothing = () => undefined
  return {
    group,
    open: nothing,
    abandon: () => void child.kill('SIGKILL'),
    end: () => endGroup(group),
    resume: nothing,
    ended: waitForEnding(child),
  }
}

function createGate(child: ChildProcess, fd: number): Pick<Child, 'open' | 'abandon'> {
  const line = descriptorStream(child, fd)
  return { open: () => void line.write('go\n'), abandon: () => void line.end() }
}

function descriptorStream(child: ChildProcess, fd: number): Duplex {
  const line = child.stdio[fd] as Duplex
  // The command may be gone before a message reaches it; its end is reported anyway.
  line.on('error', () => undefined)
  return line
}

function waitForPid(child: ChildProcess): Promise<number> {
  return new Promise((resolve, reject) => {
    child.once('error', reject)
    if (child.pid !== undefined) resolve(child.pid)
  })
}

function waitForEnding(child: ChildProcess): Promise<Ending> {
  return new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('exit', (code, signal) => {
      resolve({ code: code ?? 128 + (signal === null ? 0 : signalNumber(signal)) })
    })
  })
}

/** A shell that has to leave the terminal alone writes the code before it ends by a signal (see `scripts.ts`). */
async function waitForJob(child: ChildProcess, lines: Interface): Promise<Ending> {
  let code: number | undefined
  lines.on('line', (text) => {
    if (text.startsWith('code ')) code = Number(text.slice('code '.length))
  })
  const read = once(lines, 'close')
  const ending = await waitForEnding(child)
  if (ending.code !== 128 + signalNumber('SIGKILL')) return ending
  await read
  return { code: code ?? ending.code }
}

interface Shell {
  readonly file: string
  readonly flags: readonly string[]
}

/**
 * Most shells pass on only variables whose names they could use themselves; bash passes on all. Passing them through `env` would put them
 * in a command line, which every user of the machine may read. `-p`: functions in the environment are passed on but not defined.
 */
function shellFor(env: NodeJS.ProcessEnv, usual: string): Shell {
  const bash =
    nonPosixNames(env).length > 0 && ['/bin/bash', '/usr/bin/bash'].find((file) => existsSync(file))
  return bash ? { file: bash, flags: ['-p'] } : { file: usual, flags: [] }
}

const nonPosixNames = (env: NodeJS.ProcessEnv) =>
  Object.keys(env).filter((name) => !/^[A-Za-z_][A-Za-z0-9_]*$/.test(name))

/** Names of variables that the command will not see. */
export function lostNames(env: NodeJS.ProcessEnv): string[] {
  if (process.platform === 'win32' || !existsSync(sh)) return []
  return shellFor(env, sh).file === sh ? nonPosixNames(env) : []
}
