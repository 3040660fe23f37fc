/**
 * Worker processes that execute orders: one reply per order. A worker module passes its duties to `serve`; the bench starts it with
 * `startWorker` and sends orders.
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'

export type Handlers = Readonly<Record<string, (...args: never[]) => unknown>>

export interface Member<D extends Handlers> {
  readonly pid: number
  /** @throws Error with the error of the duty, or if the process has ended */
  ask<K extends keyof D & string>(duty: K, ...args: Parameters<D[K]>): Promise<Awaited<ReturnType<D[K]>>>
  /** Kills it, as in a crash; resolves once it is gone. */
  kill(): Promise<void>
  /** Closes its channel, on which it ends by itself. */
  stop(): Promise<void>
}

interface WorkerCall {
  readonly id: number
  readonly handler: string
  readonly args: readonly unknown[]
}
interface Reply {
  readonly id: number
  readonly result?: unknown
  readonly error?: string
}

export function startWorker<D extends Handlers>(module: URL, args: readonly string[]): Member<D> {
  const child = fork(module, args, { serialization: 'advanced' })
  const { pid } = child
  if (pid === undefined) throw new Error(`${module.pathname} could not be started`)
  const waiting = new Map<number, { resolve(result: unknown): void; reject(error: Error): void }>()
  const gone = once(child, 'exit')
  let lastId = 0
  child.on('message', ({ id, result, error }: Reply) => {
    const asked = waiting.get(id)
    waiting.delete(id)
    if (error === undefined) asked?.resolve(result)
    else asked?.reject(new Error(error))
  })
  child.on('exit', (code, signal) => {
    for (const { reject } of waiting.values()) reject(new Error(`process ${pid} ended: ${signal ?? code}`))
    waiting.clear()
  })
  return {
    pid,
    ask: (duty, ...args) =>
      new Promise((resolve, reject) => {
        const id = ++lastId
        waiting.set(id, { resolve: resolve as (result: unknown) => void, reject })
        child.send({ id, handler: duty, args } satisfies WorkerCall)
      }),
    async kill() {
      process.kill(pid, 'SIGKILL')
      await gone
    },
    async stop() {
      if (child.connected) child.disconnect()
      await gone
    },
  }
}

/** In the worker: executes the orders, concurrently if several are pending; `ended` runs when the bench has gone or is done. */
export function serve(handlers: Handlers, ended: () => Promise<void>): void {
  process.on('message', async ({ id, handler, args }: WorkerCall) => {
    let reply: Reply
    try {
      reply = { id, result: await handlers[handler]?.(...(args as never[])) }
    } catch (error) {
      reply = { id, error: error instanceof Error ? (error.stack ?? error.message) : String(error) }
    }
    process.send?.(reply)
  })
  process.on('disconnect', async () => {
    await ended()
    process.exit()
  })
}
