/**
 * Libraries on npm that lock over one Redis. Each makes single attempts with the ttl of the run, and reports the state of
 * its lock in its own terms. The types cover only the part of each library that is used here.
 */
import type { Redis } from 'ioredis'
import { loadPeer, peerVersion } from '../../bench/peer-packages.js'

export interface Library {
  readonly package: string
  /** How the library tells its user that the lock is still there. */
  readonly believes: string
  open(redis: Redis, ttl: number): Promise<(key: string) => Promise<Held | undefined>>
}

/** A lock that a library reports as held. */
export interface Held {
  /** Milliseconds left, as the library reports. */
  left(): number
  /** False: the library reports that the lock is gone. Undefined: it renews by itself. */
  extend?(): Promise<boolean>
  release(): Promise<unknown>
}

interface Expiring {
  readonly expiration: number
  extend(ttl: number): Promise<Expiring>
}
interface Redlock4 {
  new (
    clients: readonly Redis[],
    options: object,
  ): { lock(key: string, ttl: number): Promise<Expiring & { unlock(): Promise<unknown> }> }
}
interface Redlock5 {
  new (
    clients: readonly Redis[],
    options: object,
  ): {
    on(event: 'error', listener: () => void): void
    acquire(keys: readonly string[], ttl: number): Promise<Expiring & { release(): Promise<unknown> }>
  }
}
interface Semaphores {
  readonly Mutex: new (
    client: Redis,
    key: string,
    options: object,
  ) => { readonly isAcquired: boolean; tryAcquire(): Promise<boolean>; release(): Promise<void> }
}
interface Handle {
  readonly acquiredAt: number
}
interface Universal {
  readonly IoredisAdapter: new (client: Redis) => object
  createLock(config: object): {
    acquire(): Promise<Handle>
    extend(handle: Handle, ttl: number): Promise<boolean>
    release(handle: Handle): Promise<unknown>
  }
}
interface Verrou {
  readonly Verrou: new (
    config: object,
  ) => {
    createLock(
      key: string,
      ttl: number,
    ): {
      acquireImmediately(): Promise<boolean>
      getRemainingTime(): number | null
      extend(ttl: number): Promise<void>
      release(): Promise<void>
    }
  }
  redisStore(options: { readonly connection: Redis }): object
}

const byDate = 'until `expiration`, by the wall clock'

/** @param gaveUp name of the error that means "not free" */
async function orBusy<T>(attempt: Promise<T>, gaveUp: string): Promise<T | undefined> {
  return attempt.catch((error: Error) => {
    if (error.name !== gaveUp && error.constructor.name !== gaveUp) throw error
    return undefined
  })
}

function expiring<L extends Expiring>(first: L, ttl: number, release: (lock: L) => Promise<unknown>): Held {
  let lock = first
  return {
    left: () => lock.expiration - Date.now(),
    extend: async () => {
      lock = (await lock.extend(ttl)) as L
      return true
    },
    release: () => release(lock),
  }
}

function redlock5(name: string, constructorOf: (module: never) => Redlock5): Library {
  return {
    package: name,
    believes: byDate,
    async open(redis, ttl) {
      const redlock = new (constructorOf((await loadPeer(name)) as never))([redis], { retryCount: 0 })
      redlock.on('error', () => undefined)
      return async (key) => {
        const lock = await orBusy(redlock.acquire([key], ttl), 'ExecutionError')
        return lock && expiring(lock, ttl, (held) => held.release())
      }
    },
  }
}

export const libraries: Readonly<Record<string, Library>> = {
  'redlock-4': {
    package: 'redlock4',
    believes: byDate,
    async open(redis, ttl) {
      const { default: Redlock } = (await loadPeer('redlock4')) as { default: Redlock4 }
      const redlock = new Redlock([redis], { retryCount: 0 })
      return async (key) => {
        const lock = await orBusy(redlock.lock(key, ttl), 'LockError')
        return lock && expiring(lock, ttl, (held) => held.unlock())
      }
    },
  },
  'redlock-5': redlock5('redlock5', (module: { default: Redlock5 }) => module.default),
  sesamecare: redlock5('@sesamecare-oss/redlock', (module: { Redlock: Redlock5 }) => module.Redlock),
  'redis-semaphore': {
    package: 'redis-semaphore',
    believes: 'while `isAcquired`, renewing by itself',
    async open(redis, ttl) {
      const { Mutex } = (await loadPeer('redis-semaphore')) as Semaphores
      return async (key) => {
        const mutex = new Mutex(redis, key, { lockTimeout: ttl, onLockLost: () => undefined })
        if (!(await mutex.tryAcquire())) return undefined
        return { left: () => (mutex.isAcquired ? ttl : 0), release: () => mutex.release() }
      }
    },
  },
  'redlock-universal': {
    package: 'redlock-universal',
    believes: 'for its `ttl` from `acquiredAt` or the last `extend`, by the wall clock',
    async open(redis, ttl) {
      const { createLock, IoredisAdapter } = (await loadPeer('redlock-universal')) as Universal
      const adapter = new IoredisAdapter(redis)
      return async (key) => {
        const lock = createLock({ adapter, key, ttl, retryAttempts: 0 })
        const handle = await orBusy(lock.acquire(), 'LockAcquisitionError')
        if (handle === undefined) return undefined
        let from = handle.acquiredAt
        return {
          left: () => from + ttl - Date.now(),
          extend: async () => {
            if (!(await lock.extend(handle, ttl))) return false
            from = Date.now()
            return true
          },
          release: () => lock.release(handle),
        }
      }
    },
  },
  verrou: {
    package: '@verrou/core',
    believes: 'until `getRemainingTime()` is used up, by the wall clock',
    async open(redis, ttl) {
      const modules = await Promise.all(['@verrou/core', '@verrou/core/drivers/redis'].map(loadPeer))
      const { Verrou, redisStore } = Object.assign({}, ...modules) as Verrou
      const driver = redisStore({ connection: redis })
      const verrou = new Verrou({ default: 'redis', stores: { redis: { driver } } })
      return async (key) => {
        const lock = verrou.createLock(key, ttl)
        if (!(await lock.acquireImmediately())) return undefined
        return {
          left: () => lock.getRemainingTime() ?? 0,
          extend: () => lock.extend(ttl).then(() => true),
          release: () => lock.release(),
        }
      }
    },
  },
}

export function packageVersion(name: string): string {
  const library = libraries[name]
  return library === undefined ? '' : peerVersion(library.package)
}
