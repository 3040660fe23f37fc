/** Programs that are run to their end. */
import { spawn } from 'node:child_process'
import { setPriority } from 'node:os'

/** A program that did not do its work. */
export class Failure extends Error {
  override readonly name = 'Failure'
  /** It was stopped because it took too long. */
  readonly late: boolean

  constructor(message: string, late: boolean) {
    super(message)
    this.late = late
  }
}

export interface Where {
  readonly environment?: Readonly<Record<string, string>>
  readonly folder?: string
  /** Milliseconds after which it is stopped. */
  readonly timeout?: number
  /** Stops it. */
  readonly signal?: AbortSignal | undefined
}

/** Lower than what measures time beside it. */
const background = 5

/**
 * Runs a program without a shell and gives what it wrote. It is stopped after two minutes, or what `where` says.
 *
 * @throws Failure when it cannot be started, fails, or takes too long
 */
export function run(
  program: string,
  args: readonly string[],
  { folder, environment, timeout = 120_000, signal }: Where = {},
): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, {
      env: { ...process.env, ...environment },
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout,
      killSignal: 'SIGKILL',
      ...(folder !== undefined && { cwd: folder }),
      ...(signal !== undefined && { signal }),
    })
    lower(child.pid)
    let output = ''
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', (text: string) => {
        output += text
      })
    }
    child.on('error', (error) => reject(new Failure(`${program} cannot be started: ${error.message}`, false)))
    child.on('close', (code, signal) => {
      if (code === 0) resolve(output)
      else reject(new Failure(`${program} ended with ${signal ?? code}\n${output.trim()}`, child.killed))
    })
  })
}

function lower(pid: number | undefined): void {
  try {
    if (pid !== undefined) setPriority(pid, background)
  } catch {
    // It has ended already.
  }
}
