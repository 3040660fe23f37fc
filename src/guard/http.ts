/**
 * A guard before a resource behind HTTP: stale requests are answered with 412 Precondition Failed.
 *
 * Comparing at the door is not enough by itself: a request that was let in may still be at work when a newer one comes. So in
 * one process the requests of one lock name are handled one after the other; the newer one waits until the older has ended. Where
 * several processes serve the same resource, each write has to be guarded too: `fenceOf(request)` gives the fence for it, and the
 * StaleTokenError that comes of it is answered with 412 as well.
 */
import { StaleTokenError } from '../core/errors.js'
import type { Fence } from './fence.js'
import { fenceHeader, readFence } from './header.js'
import { guardedCommands, type RedisGuardClient } from './redis.js'
import type { Sql } from './sql-client.js'
import { admit, type FenceTable } from './sql-guard.js'

/** Where the newest token of each name is kept. */
export interface Fences {
  /** In one step: refuse what is older than the newest, else remember it. @throws StaleTokenError */
  admit(fence: Fence): Promise<void>
}

/** In this process, until it ends; a name takes some hundred bytes and is never forgotten. */
export function memoryFences(): Fences {
  const newest = new Map<string, number>()
  return {
    async admit({ name, token }) {
      const seen = newest.get(name) ?? 0
      if (seen > token) throw new StaleTokenError(name, token, seen)
      newest.set(name, token)
    },
  }
}

/** Common to all processes that serve the resource. */
export function redisFences(client: RedisGuardClient, prefix = 'holdfast:fence:'): Fences {
  return {
    async admit(fence) {
      const fenceKey = prefix + fence.name
      await guardedCommands(client, { fence, fenceKey, keys: [], commands: [['GET', fenceKey]] })
    },
  }
}

/** Common to all processes that serve the resource: the table of `admit`. `db` is a pool: each token is a transaction of its own. */
export function sqlFences(db: Sql, table?: FenceTable): Fences {
  return { admit: (fence) => admit(db, fence, table) }
}

export interface HttpGuardOptions<Request> {
  readonly fences: Fences
  /** The lock that protects what this request is about; another name in the header is refused. @default that of the header */
  readonly name?: (request: Request) => string
  /** Let requests without the header pass, unguarded. @default false: 428 Precondition Required */
  readonly optional?: boolean
}

/** Why a request is refused. */
export interface Refusal {
  readonly status: 400 | 412 | 428
  readonly body: { readonly error: string; readonly message: string; readonly newest?: number }
}

/** The fence of each request that was let in. */
const admitted = new WeakMap<object, Fence>()

/** The fence that the request came with, to guard its writes with; `undefined` when it had none. */
export function fenceOf(request: object): Fence | undefined {
  return admitted.get(request)
}

/** What the middlewares share: lets requests in one at a time for each name. */
export class Gatekeeper<Request extends object> {
  readonly #options: HttpGuardOptions<Request>
  /** The end of the last request of each name that was let in or waits. */
  readonly #last = new Map<string, Promise<void>>()

  constructor(options: HttpGuardOptions<Request>) {
    if (typeof options?.fences?.admit !== 'function')
      throw new TypeError(
        'a guard over HTTP needs fences: memoryFences(), redisFences(client) or sqlFences(db)',
      )
    this.#options = options
  }

  /** Resolves with what to call once the request is done, or with why it is refused. */
  async enter(request: Request, header: string | undefined): Promise<(() => void) | Refusal> {
    const { name, fences, optional } = this.#options
    if (header === undefined) {
      if (optional) return () => undefined
      return { status: 428, body: { error: 'FENCE_REQUIRED', message: `send the header ${fenceHeader}` } }
    }
    let fence: Fence
    try {
      fence = readFence(header)
    } catch (error) {
      return { status: 400, body: { error: 'BAD_FENCE', message: (error as Error).message } }
    }
    const wanted = name?.(request)
    if (wanted !== undefined && wanted !== fence.name) {
      const message = `this resource is protected by the lock ${JSON.stringify(wanted)}`
      return { status: 400, body: { error: 'WRONG_LOCK', message } }
    }
    const leave = await this.#turn(fence.name)
    try {
      await fences.admit(fence)
    } catch (error) {
      leave()
      const refusal = refusalOf(error)
      if (refusal !== undefined) return refusal
      throw error
    }
    admitted.set(request, fence)
    return leave
  }

  async #turn(name: string): Promise<() => void> {
    const before = this.#last.get(name)
    let leave: () => void = () => undefined
    const mine = new Promise<void>((resolve) => {
      leave = () => {
        if (this.#last.get(name) === mine) this.#last.delete(name)
        resolve()
      }
    })
    this.#last.set(name, mine)
    await before
    return leave
  }
}

/** The answer to a stale token; `undefined` for every other error. */
export function refusalOf(error: unknown): Refusal | undefined {
  if (!(error instanceof StaleTokenError)) return undefined
  const { code, message, newest } = error
  return { status: 412, body: { error: code, message, ...(newest !== undefined && { newest }) } }
}
