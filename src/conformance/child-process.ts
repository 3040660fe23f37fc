/** Starts `child-client.ts` in its own process and receives its messages. */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import type { Part, Task } from './child-client.js'
import type { ChildClient } from './fixture.js'
import type { TestContext } from './test-context.js'

export type FromChild =
  | { readonly is: 'ready' }
  | { readonly is: 'waiting' }
  | { readonly is: 'granted'; readonly token: number; readonly ticket?: string }
  | { readonly is: 'state'; readonly isHeld: boolean }

export type ToChild = 'state' | 'release'

export interface Child {
  readonly process: ChildProcess
  /** Resolves with the first such message, even if it has already arrived. */
  received<K extends FromChild['is']>(is: K): Promise<Extract<FromChild, { is: K }>>
  send(message: ToChild): void
  /** Sends a signal; `SIGKILL` resolves once the process is gone. */
  kill(): Promise<void>
}

/** Maximum start-up time of a child on a busy machine, in ms. */
export const startUp = 20_000
/** Minimum ttl of a child's hold, in ms: even on a busy machine, it must still hold when that is checked. */
const minTtl = 2_000

/**
 * @param ttl of its hold; raised to at least two seconds
 * @param as what the child does; a mutex by default
 */
export function acquireInChild(
  context: TestContext,
  client: ChildClient,
  name: string,
  ttl: number,
  as?: Part,
): Child {
  const task: Task = { client, name, ttl: Math.max(ttl, minTtl), ...(as !== undefined && { as }) }
  const file = fileURLToPath(new URL('./child-client.js', import.meta.url))
  const child = fork(file, [], { execArgv: [], stdio: ['ignore', 'inherit', 'inherit', 'ipc'] })
  // Not as an argument: everybody on the machine can read arguments, and the fixture's own may contain a password.
  child.send(task, () => undefined)
  const received = new Map<string, FromChild>()
  const listeners = new Set<() => void>()
  child.on('message', (message: FromChild) => {
    received.set(message.is, message)
    for (const listener of listeners) listener()
  })
  const exited = once(child, 'exit')
  // All messages have arrived only after 'close': at 'exit' the channel may still contain some.
  const closed = once(child, 'close')
  let killed = false
  context.addWaiterCount((other) => {
    const waits = !killed && received.has('waiting') && !received.has('granted')
    return waits && other === name ? 1 : 0
  })
  const kill = async () => {
    killed = true
    child.kill('SIGCONT')
    child.kill('SIGKILL')
    await exited
  }
  context.cleanup(kill)
  return {
    process: child,
    kill,
    send: (message) => void child.send(message),
    received: (is) => {
      const message = new Promise<never>((resolve, reject) => {
        const look = () => {
          const message = received.get(is)
          if (message === undefined) return
          listeners.delete(look)
          resolve(message as never)
        }
        listeners.add(look)
        look()
        closed.then(([code]) => {
          if (!killed)
            reject(new Error(`the child ended with code ${code} before it said '${is}'; see what it printed`))
        })
      })
      return context.settlesInTime(`the child to say '${is}'`, message, startUp)
    },
  }
}
