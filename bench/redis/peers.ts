/**
 * The npm libraries that lock over Redis, each used as its own documentation shows. If one gives up, the call is retried at once and the
 * retry counted; any other error ends the measurement.
 * Long because the interfaces of six libraries and the use of each are read side by side.
 */
import type { Redis } from 'ioredis'
import { loadPeer, peerVersion } from '../peer-packages.js'
import { ioredisAt } from './clients.js'
import { type Recipe, type Taken, ttl } from './contender.js'

type Settings = 'default' | 'fast'
/** Milliseconds between two polls with the `fast` settings. */
const fastDelay = 5
/** ttl in milliseconds where many locks are held and renewed. */
export const keepTtl = 10_000

type Release = () => Promise<unknown>
/** Undefined: it gave up. */
type Take = (key: string) => Promise<Release | undefined>

interface Opened {
  readonly take: Take
  /** With renewal, if the library supports it. */
  readonly keep?: Take
}

type Open = (module: never, clients: readonly Redis[], settings: Settings) => Opened

interface Peer {
  /** Package names as in bench/peers/package.json; the first one determines the version. */
  readonly packages: readonly string[]
  readonly name: string
  /** Identifies the error with which it gives up. */
  readonly givesUp: string
  readonly open: Open
  /** Over several servers, if supported. */
  readonly openMany?: Open
  readonly renews: boolean
}

/** The used part of each library's interface. */
interface Redlock4 {
  new (
    clients: readonly Redis[],
    options: object,
  ): { lock(key: string, ttl: number): Promise<{ unlock(): Promise<unknown> }> }
}
interface Redlock5 {
  new (
    clients: readonly Redis[],
    options: object,
  ): {
    on(event: 'error', listener: () => void): void
    acquire(keys: readonly string[], ttl: number): Promise<{ release(): Promise<unknown> }>
    using(keys: readonly string[], ttl: number, routine: () => Promise<void>): Promise<void>
  }
}
interface Semaphores {
  readonly Mutex: new (client: Redis, key: string, options: object) => Mutex
  readonly RedlockMutex: new (clients: readonly Redis[], key: string, options: object) => Mutex
}
interface Mutex {
  acquire(): Promise<void>
  release(): Promise<void>
}
interface Universal {
  readonly IoredisAdapter: new (client: Redis) => object
  createLock(config: object): UniversalLock
  createRedlock(config: object): UniversalLock
}
interface UniversalLock {
  acquire(): Promise<object>
  release(handle: object): Promise<unknown>
  using(routine: () => Promise<void>): Promise<void>
}
interface Verrou {
  readonly Verrou: new (
    config: object,
  ) => {
    createLock(key: string): { acquire(options: object): Promise<boolean>; release(): Promise<void> }
  }
  redisStore(options: { readonly connection: Redis }): object
}

const fastRedlock = { retryCount: -1, retryDelay: fastDelay, retryJitter: 0 }

function redlock4(Redlock: Redlock4, clients: readonly Redis[], settings: Settings): Opened {
  const redlock = new Redlock(clients, settings === 'fast' ? fastRedlock : {})
  return {
    async take(key) {
      const lock = await redlock.lock(key, ttl)
      return () => lock.unlock()
    },
  }
}

function redlock5(Redlock: Redlock5, clients: readonly Redis[], settings: Settings): Opened {
  const redlock = new Redlock(clients, settings === 'fast' ? fastRedlock : {})
  // It reports ordinary contention as an error event.
  redlock.on('error', () => undefined)
  return {
    async take(key) {
      const lock = await redlock.acquire([key], ttl)
      return () => lock.release()
    },
    keep: (key) => entered((routine) => redlock.using([key], keepTtl, routine)),
  }
}

function semaphore(make: (key: string, options: object) => Mutex, settings: Settings): Opened {
  const options = settings === 'fast' ? { retryInterval: fastDelay, acquireTimeout: 600_000 } : {}
  const take = async (key: string) => {
    const mutex = make(key, options)
    await mutex.acquire()
    return () => mutex.release()
  }
  // By default its time-out is 10 s, and it renews.
  return { take, keep: take }
}

function universal(make: (key: string, options: object) => UniversalLock, settings: Settings): Opened {
  const fast = { retryAttempts: 1_000_000, retryDelay: fastDelay, performance: 'lean' }
  const locks = new Map<string, UniversalLock>()
  return {
    async take(key) {
      // One object per key: every new one first sends a PING to the server.
      const lock = locks.get(key) ?? make(key, settings === 'fast' ? fast : {})
      locks.set(key, lock)
      const handle = await lock.acquire()
      return () => lock.release(handle)
    },
    keep: (key) => entered((routine) => make(key, { ttl: keepTtl }).using(routine)),
  }
}

/** For libraries that renew only inside a function: resolves once the function runs; the release lets it return. */
function entered(using: (routine: () => Promise<void>) => Promise<void>): Promise<Release> {
  return new Promise((resolve, reject) => {
    const ended = using(
      () =>
        new Promise<void>((leave) => {
          resolve(() => {
            leave()
            return ended
          })
        }),
    )
    ended.catch(reject)
  })
}

const peers: Readonly<Record<string, Peer>> = {
  redlock4: {
    packages: ['redlock4'],
    name: 'redlock@4',
    givesUp: 'LockError',
    open: (module: { default: Redlock4 }, clients, settings) => redlock4(module.default, clients, settings),
    openMany: (module: { default: Redlock4 }, clients, settings) =>
      redlock4(module.default, clients, settings),
    renews: false,
  },
  redlock5: {
    packages: ['redlock5'],
    name: 'redlock@5-beta',
    givesUp: 'ExecutionError',
    open: (module: { default: Redlock5 }, clients, settings) => redlock5(module.default, clients, settings),
    openMany: (module: { default: Redlock5 }, clients, settings) =>
      redlock5(module.default, clients, settings),
    renews: true,
  },
  sesamecare: {
    packages: ['@sesamecare-oss/redlock'],
    name: '@sesamecare-oss/redlock',
    givesUp: 'ExecutionError',
    open: (module: { Redlock: Redlock5 }, clients, settings) => redlock5(module.Redlock, clients, settings),
    openMany: (module: { Redlock: Redlock5 }, clients, settings) =>
      redlock5(module.Redlock, clients, settings),
    renews: true,
  },
  semaphore: {
    packages: ['redis-semaphore'],
    name: 'redis-semaphore',
    givesUp: 'TimeoutError',
    open: ({ Mutex }: Semaphores, [client], settings) =>
      semaphore((key, options) => new Mutex(client as Redis, key, options), settings),
    openMany: ({ RedlockMutex }: Semaphores, clients, settings) =>
      semaphore((key, options) => new RedlockMutex(clients, key, options), settings),
    renews: true,
  },
  universal: {
    packages: ['redlock-universal'],
    name: 'redlock-universal',
    givesUp: 'LockAcquisitionError',
    open({ createLock, IoredisAdapter }: Universal, [client], settings) {
      const adapter = new IoredisAdapter(client as Redis)
      return universal((key, options) => createLock({ adapter, key, ...options }), settings)
    },
    openMany({ createRedlock, IoredisAdapter }: Universal, clients, settings) {
      const adapters = clients.map((client) => new IoredisAdapter(client))
      return universal((key, options) => createRedlock({ adapters, key, ...options }), settings)
    },
    renews: true,
  },
  verrou: {
    packages: ['@verrou/core', '@verrou/core/drivers/redis'],
    name: '@verrou/core',
    givesUp: '',
    open({ Verrou, redisStore }: Verrou, [client], settings) {
      const driver = redisStore({ connection: client as Redis })
      const verrou = new Verrou({ default: 'redis', stores: { redis: { driver } } })
      const options = settings === 'fast' ? { retry: { delay: fastDelay } } : {}
      return {
        async take(key) {
          const lock = verrou.createLock(key)
          return (await lock.acquire(options)) ? () => lock.release() : undefined
        },
      }
    },
    renews: false,
  },
}

const entries = Object.entries(peers)
export const peerIds: readonly string[] = entries.map(([id]) => id)
export const renewingPeerIds: readonly string[] = peerIds.filter((id) => peers[id]?.renews)
export const quorumPeerIds: readonly string[] = entries
  .filter(([, { openMany }]) => openMany !== undefined)
  .map(([id]) => `quorum-${id}`)

/** `redlock4`, `redlock4-fast`, `quorum-redlock4`. */
export const peerRecipes: Readonly<Record<string, Recipe>> = Object.fromEntries(
  entries.flatMap(([id, peer]) => [
    [id, recipe(peer, peer.open, 'default')],
    [`${id}-fast`, recipe(peer, peer.open, 'fast')],
    [`quorum-${id}`, recipe(peer, peer.openMany ?? peer.open, 'default')],
  ]),
)

export function peerVersions(): Readonly<Record<string, string>> {
  return Object.fromEntries(
    entries.map(
      ([
        ,
        {
          name,
          packages: [first = ''],
        },
      ]) => [name, peerVersion(first)],
    ),
  )
}

function recipe({ name, packages, givesUp, renews }: Peer, open: Open, settings: Settings): Recipe {
  return {
    name,
    settings,
    client: 'ioredis',
    async make(ports) {
      const clients = ports.map((port) => ioredisAt(port))
      const modules = await Promise.all(packages.map(loadPeer))
      const { take, keep } = open(Object.assign({}, ...modules) as never, clients, settings)
      let gaveUp = 0
      const patient =
        (attempt: Take) =>
        async (key: string): Promise<Taken> => {
          for (;;) {
            const release = await attempt(key).catch((error: Error) => {
              if (error.name !== givesUp && error.constructor.name !== givesUp) throw error
            })
            if (release !== undefined) return { token: 0, release: release as Release }
            gaveUp++
          }
        }
      return {
        take: patient(take),
        ...(renews && keep !== undefined && { keep: patient(keep) }),
        get gaveUp() {
          return gaveUp
        },
        async close() {
          for (const client of clients) client.disconnect()
        },
      }
    },
  }
}
