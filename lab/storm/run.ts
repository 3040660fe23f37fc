/** Many processes that contend for few names on a real server: their outcomes, and the deadlocks that the server counted. */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import type { Counted, Task } from './process.js'
import { type StoreName, startStore } from './store.js'

export interface StormResult {
  readonly store: StoreName
  readonly version: string
  readonly processes: number
  readonly seconds: number
  readonly acquisitions: number
  /** Acquisitions of the process with the fewest, and of the one with the most. */
  readonly least: number
  readonly most: number
  /** Deadlocks the server has counted. */
  readonly deadlocks: number
  /** Errors that reached users, by code. */
  readonly errors: Readonly<Record<string, number>>
  /** Of counters read and written back in two statements under the lock. */
  readonly lostUpdates: number
}

export async function storm(store: StoreName, seconds: number, processes = 16): Promise<StormResult> {
  await using server = await startStore(store)
  const before = await server.deadlocks()
  const file = fileURLToPath(new URL('./process.js', import.meta.url))
  const children: ProcessReport[] = []
  try {
    for (let n = 0; n < processes; n++) {
      const task: Task = { store, port: server.port, n }
      children.push(collectReport(fork(file, [JSON.stringify(task)], { execArgv: ['--enable-source-maps'] })))
    }
    await Promise.all(children.map((one) => one.message()))
    for (const { child } of children) child.send('begin')
    await new Promise((resolve) => setTimeout(resolve, seconds * 1000))
    const told = children.map((one) => one.message<Counted>())
    for (const { child } of children) child.send('end')
    const counts = await Promise.all(told)
    const shares = counts.map(({ acquisitions }) => acquisitions)
    return {
      ...{ store, version: server.version, processes, seconds },
      acquisitions: sum(shares),
      least: Math.min(...shares),
      most: Math.max(...shares),
      deadlocks: (await server.deadlocks()) - before,
      errors: mergeCounts(counts),
      lostUpdates: sum(counts.map(({ counted }) => counted)) - (await server.total()),
    }
  } finally {
    for (const { child } of children) child.kill('SIGKILL')
  }
}

interface ProcessReport {
  readonly child: ChildProcess
  /** The next one. @throws Error when the process ends instead */
  message<T>(): Promise<T>
}

function collectReport(child: ChildProcess): ProcessReport {
  // Not 'exit', which may come before its last output.
  const ended = once(child, 'close').then(([code]) => {
    throw new Error(`a process of the storm ended with ${code}`)
  })
  ended.catch(() => undefined)
  return {
    child,
    message: async <T>() => {
      const [told] = await Promise.race([once(child, 'message'), ended])
      return told as T
    },
  }
}

const sum = (numbers: readonly number[]) => numbers.reduce((total, one) => total + one, 0)

function mergeCounts(counts: readonly Counted[]): Record<string, number> {
  const all: Record<string, number> = {}
  for (const { errors } of counts) {
    for (const [key, n] of Object.entries(errors)) all[key] = (all[key] ?? 0) + n
  }
  return all
}
