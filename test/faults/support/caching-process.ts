// Real processes that keep locks after their release (`linger`), to be frozen and killed.
import { fork } from 'node:child_process'
import { once } from 'node:events'
import type { TestContext } from 'node:test'
import { fileURLToPath } from 'node:url'
import type { AcquireOptions } from '../../../src/index.js'
import { awaitStandstill } from '../../support/servers/process.js'

/** Where a child finds the store: a Redis server, or the directory of `local`. */
export type Store = { readonly port: number } | { readonly directory: string }

export interface Order {
  readonly id: number
  readonly do: 'acquire' | 'try' | 'release'
  readonly name: string
  readonly options?: AcquireOptions
}

interface Answer {
  readonly id: number
  readonly token: number
  readonly error?: string
}

export interface CachingProcess {
  /** Resolves with the token. */
  acquire(name: string, options: AcquireOptions): Promise<number>
  /** 0: not free. */
  tryAcquire(name: string, options: AcquireOptions): Promise<number>
  release(name: string): Promise<number>
  freeze(): void
  thaw(): void
  /** With -9; resolves when it is gone. */
  kill(): Promise<void>
}

/** @param t kills it when the test ends */
export function startCaching(t: TestContext, store: Store): CachingProcess {
  const child = fork(fileURLToPath(new URL('caching-child.js', import.meta.url)), [JSON.stringify(store)])
  const exited = once(child, 'exit')
  const answers = new Map<number, (answer: Answer) => void>()
  child.on('message', (answer: Answer) => answers.get(answer.id)?.(answer))
  let last = 0
  const ask = (order: Omit<Order, 'id'>) => {
    const id = ++last
    child.send({ ...order, id })
    return new Promise<number>((resolve, reject) => {
      answers.set(id, ({ token, error }) => {
        if (error === undefined) resolve(token)
        else reject(new Error(error))
      })
    })
  }
  const kill = async () => {
    child.kill('SIGKILL')
    await exited
  }
  t.after(kill)
  return {
    acquire: (name, options) => ask({ do: 'acquire', name, options }),
    tryAcquire: (name, options) => ask({ do: 'try', name, options }),
    release: (name) => ask({ do: 'release', name }),
    freeze: () => {
      child.kill('SIGSTOP')
      awaitStandstill(child.pid ?? 0)
    },
    thaw: () => void child.kill('SIGCONT'),
    kill,
  }
}
