// What the Redlock tests are set with: drivers of their own clients, cables between each client and each server, and a look at
// the votes a server has given.
import type { TestContext } from 'node:test'
import type { Driver, DriverFactory } from '../../../../src/core/driver.js'
import { systemEnv } from '../../../../src/core/engine.js'
import { createLocks, type Locks } from '../../../../src/create-locks.js'
import type { TcpProxy } from '../../../support/proxy.js'
import type { RedisServer } from '../../../support/servers/redis.js'
import { until } from '../../../support/until.js'
import type { Library } from '../../redis/support/clients.js'
import { claim, once, waiting } from '../../support/asking.js'
import { Cables, type Options, redlockOn } from './clients.js'

export interface Scene {
  readonly servers: readonly RedisServer[]
  readonly ports: readonly number[]
  /** Of its own, where servers are shared with a group of another size: a server new to a group is left out at first. */
  readonly prefix: string
}

/** A driver alone, closed at the end of the test. */
export function driverOf(
  t: TestContext,
  { ports, prefix }: Scene,
  options?: Options,
  library: Library = 'ioredis',
): Driver {
  const driver = redlockOn(library, ports, { prefix, ...options })(systemEnv())
  t.after(() => driver.close())
  return driver
}

export function locksOf(t: TestContext, { ports, prefix }: Scene, options?: Options): Locks {
  const locks = createLocks(redlockOn('ioredis', ports, { prefix, ...options }))
  t.after(() => locks.close())
  return locks
}

export interface Cabled {
  readonly driver: Driver
  /** The proxy before server `n`, counted from 0. */
  cable(n: number): TcpProxy
}

/** Drivers, each behind cables of its own. */
export async function cabled(
  t: TestContext,
  { ports, prefix }: Scene,
  drivers: number,
  options?: Options,
  library: Library = 'ioredis',
): Promise<readonly Cabled[]> {
  const cables = await Cables.to(ports, drivers)
  const made = Array.from({ length: drivers }, () => {
    const factory: DriverFactory = cables.factory(library, ports, { prefix, ...options })
    const driver = factory(systemEnv())
    const cable = (n: number) => cables.between(factory, ports[n] ?? 0)
    return { driver, cable }
  })
  t.after(async () => {
    await Promise.all(made.map(({ driver }) => driver.close()))
    await cables.stop()
  })
  return made
}

/**
 * Lets each driver meet every server, so that what follows is about locks and not about first acquaintance. The very first time by one
 * that has patience: servers of which only a majority answers in time then are left out for a minute.
 */
export async function meet({ servers, ports, prefix }: Scene, ...drivers: readonly Driver[]): Promise<void> {
  const founder = redlockOn('ioredis', ports, { prefix, commandTimeout: 20_000 })(systemEnv())
  const founding = await founder.acquire(claim('founding', { ttl: 60_000 }), waiting())
  await founding?.release()
  await founder.close()
  for (const [i, driver] of drivers.entries()) {
    const name = `meeting-${i}`
    await until(
      async () => {
        const grant = await driver.acquire(claim(name, { ttl: 1_000 }), once()).catch(() => undefined)
        if (grant === undefined) return false
        const votes = await Promise.all(servers.map((server) => votesAt(server, name, prefix)))
        // One that replies late still gets it back.
        await grant.release().catch(() => undefined)
        return votes.every(({ length }) => length === 1)
      },
      { within: 15_000, every: 50, what: 'a vote from every server' },
    )
  }
}

/** The votes of this server that are out, by attempt: what is kept of each, from its deadline on. */
export async function ballotsAt(
  server: RedisServer,
  name: string,
  prefix: string,
): Promise<ReadonlyMap<string, { readonly due: number; readonly ballot: number }>> {
  const stored = String((await server.cli('GET', `${prefix}redlock{${name}}`)) ?? '')
  const votes = stored.split('\n').filter((line) => line.startsWith('v '))
  return new Map(
    votes.map((line) => {
      const [, attempt = '', , due, ballot] = line.split(' ')
      return [attempt, { due: Number(due), ballot: Number(ballot) }]
    }),
  )
}

/** The attempts that have this server's vote. */
export async function votesAt(server: RedisServer, name: string, prefix: string): Promise<readonly string[]> {
  return [...(await ballotsAt(server, name, prefix)).keys()]
}

export const now: () => number = systemEnv().clock.now

/** The event loop is paused: nothing is read, no timer fires. */
export function stall(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
}
