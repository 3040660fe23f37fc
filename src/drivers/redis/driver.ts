/** The Redis driver: the scripts in `scripts/` decide, `waiter.ts` and `hold.ts` send the requests, this file assembles them. */
import { mayBeCached } from '../../core/caching.js'
import type { Driver, DriverFactory, Env, Grant, LockStatus, Traits } from '../../core/driver.js'
import { BackendError } from '../../core/errors.js'
import { acquireMany } from './acquire-many.js'
import { createCells } from './cells.js'
import { type Connection, connect, type Reply } from './client.js'
import { toFailure } from './failure.js'
import { toLockStatus } from './inspect.js'
import { type Keys, lockKeys, parseLockName, rememberKeys, scanPattern } from './keys.js'
import { toResult } from './multi-step-reply.js'
import { parseOptions, type RedisOptions } from './options.js'
import { answerTo, scriptHash } from './pipeline.js'
import { checkReply } from './reply-shapes.js'
import { createRuntime, type Runtime } from './runtime.js'
import { inspect } from './scripts/inspect.js'
import { force } from './scripts/verbs.js'
import { withinTime } from './server.js'
import { Waiter } from './waiter.js'

export interface RedisTraits extends Traits {
  readonly modes: readonly ['exclusive', 'shared', 'permits']
  readonly fair: true
  readonly shared: true
  readonly cells: true
  readonly portable: true
  /** False without a subscriber: nobody could tell the holder that others wait. */
  readonly caching: boolean
  /** False in a Cluster, where every lock has its own slot. */
  readonly acquireMany: boolean
}

const traits: RedisTraits = Object.freeze({
  modes: ['exclusive', 'shared', 'permits'] as const,
  fair: true,
  // A shorter lease would be used up by the round trip to the server.
  minTtl: 20,
  shared: true,
  maxLockDelay: Number.POSITIVE_INFINITY,
  cells: true,
  portable: true,
  caching: true,
  acquireMany: true,
})
const traitsInCluster: RedisTraits = Object.freeze({ ...traits, acquireMany: false })

/**
 * Locks in Redis 7+ or Valkey: standalone, Sentinel or Cluster, over an ioredis or node-redis client.
 * @throws TypeError or RangeError for invalid options, before any I/O
 */
export function redis(options: RedisOptions): DriverFactory<RedisTraits> {
  const settings = parseOptions(options)
  return (env) => {
    const { clock } = env
    // Checked now, so that a wrong client is reported at once; sends nothing.
    const given = connect(options.client, clock)
    const { subscriber } = settings
    const apart = subscriber ? connect(subscriber, clock, 'subscriber') : undefined
    given.watchOutages()
    let own: Connection | undefined
    let runtime: Runtime | undefined
    let closed = false

    const open = (): Runtime => {
      if (closed) throw new BackendError('redis', 'these locks were closed', { closed: true })
      if (runtime !== undefined) return runtime
      if (settings.replicas > 0) {
        own = given.duplicate()
        own.watchOutages()
      }
      const listener = {
        // Not `given` when `own` exists: the driver then never uses `given`, which may be unconnected and not know the masters.
        connection: subscriber === false ? undefined : (apart ?? own ?? given),
        setApart: apart !== undefined,
      }
      runtime = createRuntime(own ?? given, listener, settings, env)
      return runtime
    }

    const driver = driverOver(open, env, settings.prefix, async () => {
      closed = true
      await runtime?.close()
      own?.close()
      for (const one of [given, own]) one?.unwatchOutages()
    })
    const caching = subscriber !== false
    if (given.cluster) return { ...driver, traits: Object.freeze({ ...traitsInCluster, caching }) }
    return {
      ...driver,
      traits: Object.freeze({ ...traits, caching }),
      acquireMany: async (claims, wait) => acquireMany(open(), claims, settings.prefix, wait),
    }
  }
}

function driverOver(
  open: () => Runtime,
  { clock, id }: Env,
  prefix: string,
  close: () => Promise<void>,
): Driver<RedisTraits> {
  const show = async (runtime: Runtime, name: string): Promise<LockStatus> => {
    const { connection } = runtime.pipeline
    const keys = lockKeys(prefix, name)
    const once = (how: 'EVALSHA' | 'EVAL', text: string) =>
      withinTime(clock, runtime.settings.commandTimeout, connection.run(how, text, keys, []))
    const reply = await once('EVALSHA', scriptHash(inspect)).catch((error) => {
      if (error instanceof Error && error.message.startsWith('NOSCRIPT')) return once('EVAL', inspect.text)
      throw error
    })
    return toLockStatus(name, checkReply(inspect, reply, []) as readonly Reply[])
  }

  const withRuntime = async <T>(work: (runtime: Runtime) => Promise<T>): Promise<T> => {
    const runtime = open()
    try {
      return await work(runtime)
    } catch (error) {
      throw toFailure(error, runtime.pipeline.connection).error
    }
  }

  const keysFor = rememberKeys(prefix)
  return {
    name: 'redis',
    traits,

    acquire(claim, wait) {
      return new Promise<Grant | undefined>((resolve, reject) => {
        const runtime = open()
        runtime.ensureCompatible(claim.ttl, claim)
        // Others who wait must be able to reach this process from the first grant on.
        if (mayBeCached(claim.attempt)) runtime.subscriber.open()
        new Waiter(runtime, claim, keysFor(claim.name), wait, resolve, reject).ask()
      })
    },

    inspect: (name) => withRuntime((runtime) => show(runtime, name)),

    list: (beginning) =>
      withRuntime(async (runtime) => {
        const { connection } = runtime.pipeline
        const found: LockStatus[] = []
        const seen = new Set<string>()
        const pages = connection.scan(scanPattern(connection.keyPrefix + prefix, beginning))
        for (;;) {
          const { done, value: page } = await withinTime(clock, runtime.settings.commandTimeout, pages.next())
          if (done) break
          // SCAN may return a key twice while the key table grows, and while the key moves to another node.
          const names = new Set(page.map((key) => parseLockName(connection.keyPrefix + prefix, key)))
          const fresh = [...names].filter((name) => name !== undefined && !seen.has(name)) as string[]
          for (const name of fresh) seen.add(name)
          const statuses = await Promise.all(fresh.map((name) => show(runtime, name)))
          found.push(...statuses.filter(({ holders, waiters }) => holders.length + waiters.length > 0))
        }
        return found.sort((a, b) => (a.name < b.name ? -1 : 1))
      }),

    forceRelease: (name) =>
      withRuntime(async (runtime) => {
        const keys: Keys = lockKeys(prefix, name)
        const [ended, flight] = await answerTo(runtime.pipeline, force, keys, [id()])
        return Number(toResult(runtime, keys, ended, flight))
      }),

    cells: createCells(open, prefix),

    close,
  }
}
