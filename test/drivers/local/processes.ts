// Real processes that take local locks, and a directory of their own for them to meet in.
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, realpathSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { AcquireOptions } from 'holdfast'
import type { LocalOptions } from 'holdfast/local'
import { awaitStandstill } from '../../support/servers/process.js'

type OrderOf =
  | { do: 'acquire'; name: string; shared?: boolean; options?: AcquireOptions }
  | { do: 'try' | 'waiters'; name: string }
  | { do: 'release' | 'state' | 'aborted'; lease: number }
  | { do: 'block'; ms: number }
  | { do: 'bear' | 'doubted' | 'losses' }
  | { do: 'close' }
export type Order = OrderOf & { id: number }

export interface Taken {
  readonly lease: number
  readonly token: number
  /** When, on the monotonic clock that all processes share, in ms. */
  readonly at: number
}

export interface Taker {
  readonly pid: number
  readonly child: ChildProcess
  acquire(name: string, options?: AcquireOptions, shared?: boolean): Promise<Taken>
  /** The token, or undefined when it is not free. */
  tryAcquire(name: string): Promise<number | undefined>
  /** How many are queued, as the broker tells it. */
  waiters(name: string): Promise<number>
  release(taken: Taken): Promise<string>
  state(taken: Taken): Promise<string>
  aborted(taken: Taken): Promise<boolean>
  /** The names of those that ever were doubtful. */
  doubted(): Promise<string[]>
  /** Why its leases were lost, oldest first. */
  losses(): Promise<string[]>
  /** Its event loop is paused for `ms`; resolves when it is about to. */
  block(ms: number): Promise<unknown>
  /** Starts a process that outlives it; resolves with its pid. */
  bear(): Promise<number>
  close(): Promise<void>
  stop(): void
  go(): void
  /** Kills it with -9; resolves when it is gone. */
  kill(): Promise<void>
}

const running = new Set<ChildProcess>()
const folders: string[] = []

export const now = (): number => Number(process.hrtime.bigint()) / 1e6

export function freshDirectory(): string {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'holdfast-test-')))
  folders.push(folder)
  return folder
}

/** The process that runs the broker, as the journal says. */
export function brokerOf(directory: string): number {
  const header = readFileSync(join(directory, 'journal'), 'utf8').split('\n')[0] ?? '[]'
  return Number(JSON.parse(header)[3])
}

export interface Start {
  /** Runs it through a shell that sets limits first: `ulimit -f 8`. */
  readonly limit?: string
  /** The Node that runs it. */
  readonly node?: string
  /** A module beside this file that it loads first. */
  readonly preload?: string
  readonly env?: NodeJS.ProcessEnv
}

export async function start(
  options: LocalOptions,
  { limit, node = process.execPath, preload, env }: Start = {},
): Promise<Taker> {
  const file = fileURLToPath(new URL('./child.js', import.meta.url))
  const shell = limit && {
    execPath: '/bin/sh',
    execArgv: ['-c', `${limit}; exec "${node}" "$0" "$@"`],
  }
  const child = fork(file, [JSON.stringify(options)], {
    execPath: node,
    execArgv: preload ? ['--import', new URL(preload, import.meta.url).href] : [],
    env: { ...process.env, ...env },
    ...shell,
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  })
  running.add(child)
  const exited = once(child, 'exit').then(() => running.delete(child))
  const answers = new Map<number, (message: { value?: unknown; error?: { message: string } }) => void>()
  child.on('message', (message: { id: number; value?: unknown }) => answers.get(message.id)?.(message))
  let last = 0
  const ask = (order: OrderOf) => {
    last += 1
    const id = last
    return new Promise<unknown>((resolve, reject) => {
      answers.set(id, ({ value, error }) => {
        answers.delete(id)
        if (error === undefined) resolve(value)
        else reject(Object.assign(new Error(error.message), error))
      })
      child.send({ ...order, id })
    })
  }
  await new Promise<void>((resolve, reject) => {
    answers.set(0, () => resolve())
    exited.then(() => reject(new Error('the child ended before it began')))
  })
  return {
    pid: child.pid ?? 0,
    child,
    async acquire(name, options, shared = false) {
      const asked = ask({ do: 'acquire', name, shared, ...(options && { options }) })
      const lease = last
      return { ...((await asked) as { token: number; at: number }), lease }
    },
    tryAcquire: (name) => ask({ do: 'try', name }) as Promise<number | undefined>,
    waiters: (name) => ask({ do: 'waiters', name }) as Promise<number>,
    release: ({ lease }) => ask({ do: 'release', lease }) as Promise<string>,
    state: ({ lease }) => ask({ do: 'state', lease }) as Promise<string>,
    aborted: ({ lease }) => ask({ do: 'aborted', lease }) as Promise<boolean>,
    doubted: () => ask({ do: 'doubted' }) as Promise<string[]>,
    losses: () => ask({ do: 'losses' }) as Promise<string[]>,
    block: (ms) => ask({ do: 'block', ms }),
    bear: () => ask({ do: 'bear' }) as Promise<number>,
    close: async () => void (await ask({ do: 'close' })),
    stop: () => {
      child.kill('SIGSTOP')
      if (child.pid !== undefined) awaitStandstill(child.pid)
    },
    go: () => void child.kill('SIGCONT'),
    async kill() {
      child.kill('SIGKILL')
      await exited
    },
  }
}

/** Ends every child and removes every folder of this test file. */
export async function endAll(): Promise<void> {
  await Promise.all(
    [...running].map((child) => {
      const exited = once(child, 'exit')
      child.kill('SIGKILL')
      return exited
    }),
  )
  for (const folder of folders) rmSync(folder, { recursive: true, force: true })
}
