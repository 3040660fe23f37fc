// A child process in which many want one lock and pass it on among themselves until the process is killed. It reports every token.
import { once } from 'node:events'
import { createLocks, type DriverFactory } from 'holdfast'
import type { ChildClient } from 'holdfast/conformance'

export interface PassingTask {
  readonly client: ChildClient
  readonly name: string
  readonly ttl: number
  /** How many want the lock at any time. */
  readonly wanting: number
}

export interface Granted {
  readonly token: number
  /** It was passed on inside the process. */
  readonly handedOff: boolean
}

const [task] = (await once(process, 'message')) as [PassingTask]
const { module, export: exported, args = [] } = task.client
const make: (...args: unknown[]) => DriverFactory | Promise<DriverFactory> = (await import(module))[exported]
const locks = createLocks(await make(...args), { ttl: task.ttl })
locks.on('granted', ({ token, handedOff }) => process.send?.({ token, handedOff } satisfies Granted))
process.on('disconnect', () => process.exit(0))
const lock = locks.mutex(task.name)

async function want(): Promise<never> {
  for (;;) await (await lock.acquire({ wait: Number.POSITIVE_INFINITY })).release()
}

await Promise.all(Array.from({ length: task.wanting }, want))
