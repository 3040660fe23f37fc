// What an option refuses, by its own words: each is given a wrong value, and the error is taken down. No store is asked: bad input is
// refused before any I/O, and the clients here never connect.

import * as api from '@opentelemetry/api'
import { createLocks, type Locks } from 'holdfast'
import { consul } from 'holdfast/consul'
import { locked } from 'holdfast/decorators'
import { etcd } from 'holdfast/etcd'
import { guardedConsulTxn, guardFetch, memoryFences, once, pg as pgSql } from 'holdfast/guard'
import { proveGuard } from 'holdfast/guard/testing'
import { local } from 'holdfast/local'
import { memory } from 'holdfast/memory'
import { inTransaction as inMysql, mysql } from 'holdfast/mysql'
import { HoldfastModule, LOCKS } from 'holdfast/nestjs'
import { telemetry } from 'holdfast/otel'
import { inTransaction as inPostgres, postgres } from 'holdfast/postgres'
import { redis } from 'holdfast/redis'
import { redlock } from 'holdfast/redlock'
import { lockPage } from 'holdfast/ui'
import { lockManager } from 'holdfast/web-locks'
import { zookeeper } from 'holdfast/zookeeper'
import { Redis } from 'ioredis'
import { createPool } from 'mysql2/promise'
import pg from 'pg'
import type { Member } from './model.js'

/** Stands for any name in the messages. */
const name = '…'

/** Passes options of which one is wrong. */
type Call = (options: object) => unknown

export interface WrongValues {
  /** The errors of one option, `TypeError: …`, without the value; empty where nothing is known. */
  readonly of: (specifier: string, name: string, member: Member) => Promise<readonly string[]>
  readonly close: () => Promise<void>
}

export function wrongValues(): WrongValues {
  const locks = createLocks(memory())
  const redisClients = [1, 2, 3].map((port) => new Redis({ port, lazyConnect: true }))
  const pools = { mysql: createPool({}), postgres: new pg.Pool() }
  const calls = { ...listCalls(locks), ...otherCalls(locks), ...driverCalls(redisClients, pools) }
  return {
    of: async (specifier, name, member) => {
      const call = calls[`${specifier}: ${name}`]
      if (call === undefined) return []
      const found = await Promise.all(
        wrong(member.type).map((value) => refusal(call, specifier, member.name, { [member.name]: value })),
      )
      return [...new Set(found.flatMap((message) => message ?? []))]
    },
    close: async () => {
      for (const client of redisClients) client.disconnect()
      await Promise.all([locks.close(), pools.mysql.end(), pools.postgres.end()])
    },
  }
}

/** Values that do not fit the type, or hardly. */
function wrong(type: string): unknown[] {
  if (/\bDuration\b|\bnumber\b/.test(type)) return [-1.5]
  if (/^boolean$/.test(type)) return ['yes']
  if (/\bstring\b/.test(type)) return [7, '{ }']
  if (/'/.test(type)) return ['nonsense']
  return [7]
}

async function refusal(
  call: Call,
  specifier: string,
  option: string,
  options: object,
): Promise<string | undefined> {
  try {
    await call(options)
  } catch (error) {
    if (!(error instanceof TypeError || error instanceof RangeError)) return undefined
    // Another error than that of this option: it was passed on, and broke something else.
    const ours = error.message.startsWith(`${specifier.replace('holdfast/', '')}: `)
    if (!ours && !error.message.includes(option)) return undefined
    return `\`${error.name}\`: ${error.message.replace(/[,;] got .*?(?=;|$)/, '')}`
  }
  return undefined
}

function listCalls(locks: Locks): Record<string, Call> {
  const own: Record<string, Call> = {
    AcquireOptions: (given) => locks.semaphore(name, { permits: 2 }).acquire({ wait: 0, ...given }),
    LocksOptions: (given) => createLocks(memory(), given),
    LeakWarningOptions: (leakWarning) => createLocks(memory(), { leakWarning }),
    SemaphoreOptions: (given) => locks.semaphore(name, { permits: 2, ...given }),
    PoolOptions: (given) => locks.pool(name, { permits: 2, ...given }),
    JobOptions: (given) => locks.job(name, given).run(() => undefined),
    OnceOptions: (given) => locks.once(name, () => 1, given),
    LatchOptions: (given) => locks.latch(name).setCount(1, given),
    CampaignOptions: (given) => locks.election(name).campaign('', { wait: 0, ...given }),
    RevokeOptions: (given) => locks.revoke(name, given),
    WaitOptions: (given) => locks.mutex(name).waitUntilFree(given),
    HealthOptions: (given) => locks.health(given),
  }
  return Object.fromEntries(Object.entries(own).map(([options, call]) => [`holdfast: ${options}`, call]))
}

function otherCalls(locks: Locks): Record<string, Call> {
  const web = lockManager(locks)
  const unused = () => {
    throw new Error('the options were accepted')
  }
  return {
    'holdfast/guard: HttpGuardOptions': (given) =>
      guardFetch(() => new Response(), { name, fences: memoryFences(), ...given }),
    'holdfast/guard: ConsulGuardOptions': (given) =>
      guardedConsulTxn({ url: 'http://localhost', ...given }, { fence, fenceKey: 'fence', operations: [] }),
    'holdfast/guard: OnceOptions': (given) => once(pgSql({ query: unused }), 'key', () => 1, given),
    'holdfast/guard/testing: ProveGuardOptions': (given) => proveGuard(unused, given),
    'holdfast/decorators: LockedOptions': (given) => locked(locks, name, given),
    'holdfast/nestjs: HoldfastModuleOptions': (given) => createWith({ driver: memory(), ...given }),
    'holdfast/otel: TelemetryOptions': (given) => telemetry(api, given).stop(),
    'holdfast/ui: StoreOptions': (given) => lockPage({ stores: { main: { locks, ...given } } }),
    'holdfast/ui: PageOptions': (given) => lockPage({ stores: { main: locks }, ...given }),
    'holdfast/web-locks: LockManagerOptions': (given) => lockManager(locks, given),
    'holdfast/web-locks: LockOptions': (given) => web.request(name, given, () => undefined),
  }
}

const fence = { name: 'lock', token: 1 }

const unsent = () => {
  throw new Error('a statement was sent')
}

/** What Nest calls when it makes the module's locks. */
function createWith(options: object): Promise<void> {
  const { providers } = HoldfastModule.forRoot(options as Parameters<typeof HoldfastModule.forRoot>[0])
  const provider = providers.find(({ provide }) => provide === LOCKS)
  if (provider === undefined || !('useFactory' in provider)) throw new Error('the module has no locks')
  return (provider.useFactory as (options: object) => Locks)(options).close()
}

function driverCalls(
  redisClients: readonly Redis[],
  pools: { readonly mysql: ReturnType<typeof createPool>; readonly postgres: pg.Pool },
): Record<string, Call> {
  const [client] = redisClients
  if (client === undefined) throw new Error('there is no client')
  return {
    'holdfast/redis: RedisOptions': (given) => createLocks(redis({ client, ...given })).close(),
    'holdfast/redlock: RedlockOptions': (given) => redlock({ clients: redisClients, ...given }),
    'holdfast/postgres: PostgresOptions': (given) => postgres({ pool: pools.postgres, ...given }),
    'holdfast/postgres: TransactionOptions': (given) => inPostgres({ query: unsent }, name, given),
    'holdfast/mysql: TransactionOptions': (given) =>
      inMysql({ query: unsent }, name, { pool: pools.mysql, ...given }),
    'holdfast/mysql: MysqlOptions': (given) => mysql({ pool: pools.mysql, ...given }),
    'holdfast/etcd: EtcdOptions': (given) => etcd({ endpoints: 'localhost', ...given }),
    'holdfast/zookeeper: ZookeeperOptions': (given) => zookeeper({ servers: 'localhost', ...given }),
    'holdfast/consul: ConsulOptions': (given) => consul({ url: 'localhost', ...given }),
    'holdfast/local: LocalOptions': (given) => local(given),
  }
}
