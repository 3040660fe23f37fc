/**
 * Starts the command in a process group of its own, held back by a gate (see `scripts.ts`) until `open()`.
 *
 * Off a terminal it gets a session of its own. On a terminal that would cost it `/dev/tty`, ^Z and the shell's job control, so there a
 * job-controlling shell stands in between. What has no /bin/sh starts without a gate.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { createInterface } from 'node:readline'
import type { Duplex } from 'node:stream'
import { inForeground } from '../tty.js'
import { gate, job } from './scripts.js'
import { signalNumber } from './signals.js'

export interface Ending {
  /** 128 + n when signal n ended it. */
  readonly code: number
}

export interface Child {
  /** Its process group. */
  readonly group: number
  /** Lets the command run. */
  open(): void
  /** Ends the gate instead: the command never runs. */
  abandon(): void
  /** Continues a job that was stopped. */
  resume(how: 'fg' | 'bg'): void
  readonly ended: Promise<Ending>
}

/**
 * `job`: a job of its own on the terminal. `session`: a session of its own. `background`: the same, and it must not read the terminal,
 * or it would take what is typed to the shell.
 */
export type Place = 'job' | 'session' | 'background'

export function placeOfCommand(): Place {
  if (!process.stdin.isTTY) return 'session'
  if (!inForeground()) return 'background'
  // What else is in a pipeline with us may need the terminal, too: it is taken only if no pipe is in sight.
  return process.stdout.isTTY ? 'job' : 'session'
}

type Stdin = 'inherit' | 'ignore'

const sh = '/bin/sh'

/**
 * @param onStopped the job was stopped from the terminal; only as a `job`.
 * @throws Error when the process cannot be started.
 */
export async function startChild(
  command: readonly string[],
  env: NodeJS.ProcessEnv,
  place: Place,
  onStopped: () => void,
): Promise<Child> {
  const stdin = place === 'background' ? 'ignore' : 'inherit'
  if (process.platform === 'win32' || !existsSync(sh)) return startBare(command, env, stdin)
  const argv = [...carriedOver(env), ...command]
  const started = place === 'job' ? await startJob(argv, env, onStopped) : undefined
  return started ?? (await startGated(argv, env, stdin))
}

async function startGated(argv: readonly string[], env: NodeJS.ProcessEnv, stdin: Stdin): Promise<Child> {
  const child = spawn(sh, ['-c', gate, 'sh', ...argv], {
    env,
    detached: true,
    stdio: [stdin, 'inherit', 'inherit', 'pipe'],
  })
  const group = await pidOf(child)
  return { group, ...gateOf(child), resume: () => undefined, ended: endingOf(child) }
}

/** `undefined`: this shell manages no jobs here. */
async function startJob(
  argv: readonly string[],
  env: NodeJS.ProcessEnv,
  onStopped: () => void,
): Promise<Child | undefined> {
  // dash and its relatives do this best; bash as sh does it, too.
  const shell = existsSync('/bin/dash') ? '/bin/dash' : sh
  const child = spawn(shell, ['-c', job, 'sh', ...argv], {
    env,
    stdio: ['inherit', 'inherit', 'inherit', 'pipe', 'pipe'],
  })
  const ended = endingOf(child)
  const line = lineOf(child, 4)
  const group = await new Promise<number | undefined>((resolve, reject) => {
    createInterface({ input: line }).on('line', (text) => {
      if (text === 'stopped') onStopped()
      else resolve(text === 'no jobs' ? undefined : Number(text.replace(/^group /, '')))
    })
    ended.then((ending) => reject(new EndedEarly(ending)), reject)
  })
  if (group === undefined) return undefined
  return { group, ...gateOf(child), resume: (how) => void line.write(`${how}\n`), ended }
}

/** The shell around the command was ended before it had started it; by ^C, if the code is 130. */
export class EndedEarly extends Error {
  override readonly name = 'EndedEarly'
  readonly ending: Ending
  constructor(ending: Ending) {
    super(`the shell that should start the command ended with code ${ending.code}`)
    this.ending = ending
  }
}

/** Without a gate the command runs at once: there is a moment in which nobody but this process would end it. */
async function startBare(command: readonly string[], env: NodeJS.ProcessEnv, stdin: Stdin): Promise<Child> {
  const [file = '', ...args] = command
  const child = spawn(file, args, {
    env,
    detached: process.platform !== 'win32',
    stdio: [stdin, 'inherit', 'inherit'],
  })
  const group = await pidOf(child)
  const nothing = () => undefined
  return {
    group,
    open: nothing,
    abandon: () => void child.kill('SIGKILL'),
    resume: nothing,
    ended: endingOf(child),
  }
}

function gateOf(child: ChildProcess): Pick<Child, 'open' | 'abandon'> {
  const line = lineOf(child, 3)
  return { open: () => void line.write('go\n'), abandon: () => void line.end() }
}

function lineOf(child: ChildProcess, fd: number): Duplex {
  const line = child.stdio[fd] as Duplex
  // The command may be gone before it could be told something; its end is reported all the same.
  line.on('error', () => undefined)
  return line
}

function pidOf(child: ChildProcess): Promise<number> {
  return new Promise((resolve, reject) => {
    child.once('error', reject)
    if (child.pid !== undefined) resolve(child.pid)
  })
}

function endingOf(child: ChildProcess): Promise<Ending> {
  return new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('exit', (code, signal) => {
      resolve({ code: code ?? 128 + (signal === null ? 0 : signalNumber(signal)) })
    })
  })
}

/** A shell hands on only variables with names that it could use itself; `env` puts the others back. */
function carriedOver(env: NodeJS.ProcessEnv): string[] {
  const odd = Object.entries(env).filter(([name]) => !/^[A-Za-z_][A-Za-z0-9_]*$/.test(name))
  return odd.length === 0 ? [] : ['env', ...odd.map(([name, value]) => `${name}=${value}`)]
}
