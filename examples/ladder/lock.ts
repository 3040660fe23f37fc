/** What the scenes need from a lock, written by hand or holdfast's. One `Lock` is one process's access to it. */
import { setTimeout as pause } from 'node:timers/promises'
import type { Redis } from 'ioredis'

export interface Held {
  /** Resolves with the lock's own reply. */
  release(): Promise<unknown>
  /** Does it believe that it holds the lock now? Most locks by hand never check. */
  readonly isHeld?: boolean
  /** Grows with every grant, if the lock has a token. */
  readonly token?: number
}

/** Times are in ms. */
export interface Lock {
  tryAcquire(name: string, ttl: number): Promise<Held | undefined>
  /** Waits for at most `wait`. */
  acquire(name: string, ttl: number, wait: number): Promise<Held | undefined>
  /** Resolves with whether `work` was done. */
  run(name: string, ttl: number, wait: number, work: () => Promise<unknown>): Promise<boolean>
  close(): Promise<unknown>
}

/** How to make a lock over that many servers, with a client for each. */
export interface Recipe {
  readonly title: string
  readonly servers: 1 | 3
  open(...clients: readonly Redis[]): Lock
}

/** The result of a scene with one lock. */
export interface Outcome {
  /** Did the lock do its job? */
  readonly ok: boolean
  /** What was counted, in words. */
  readonly saw: string
}

/** One way in which a lock fails, applied to the given lock. */
export interface Scene {
  readonly name: string
  /** What happens to the lock, in one sentence. */
  readonly fault: string
  run(recipe: Recipe): Promise<Outcome>
}

/** The scene's own first holder, without which there is no scene. */
export async function take(lock: Lock, ttl: number): Promise<Held> {
  const held = await lock.tryAcquire('order:7', ttl)
  if (held === undefined) throw new Error('the first holder of the scene did not get the lock')
  return held
}

/** Of a scene in which one holds the lock and another has asked for it. */
export function holders(intruder: Held | undefined): Outcome {
  return intruder === undefined ? { ok: true, saw: '1 holder' } : { ok: false, saw: '2 holders at once' }
}

/** The same, after something was forgotten: is anything granted at all? */
export async function holdersAfterLoss(other: Lock): Promise<Outcome> {
  const { ok, saw } = holders(await other.tryAcquire('order:7', 30_000))
  const elsewhere = await other.tryAcquire('another order', 30_000)
  return { ok, saw: `${saw}; other locks ${elsewhere ? 'go on' : 'wait until it is safe'}` }
}

/** A recipe over one server. */
export function single(title: string, open: (client: Redis) => Lock): Recipe {
  return { title, servers: 1, open: (client) => open(client as Redis) }
}

/** Completes what a recipe does not say: it waits by asking again every 20 ms, and `run` is acquire, work, release. */
export function byHand(own: Pick<Lock, 'tryAcquire'> & Partial<Lock>): Lock {
  const lock: Lock = {
    async acquire(name, ttl, wait) {
      const until = performance.now() + wait
      for (;;) {
        const held = await own.tryAcquire(name, ttl)
        if (held !== undefined || performance.now() > until) return held
        await pause(20)
      }
    },
    async run(name, ttl, wait, work) {
      const held = await lock.acquire(name, ttl, wait)
      if (held === undefined) return false
      try {
        await work()
      } finally {
        await held.release()
      }
      return true
    },
    close: async () => undefined,
    ...own,
  }
  return lock
}
