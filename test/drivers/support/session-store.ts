// What the tests of a store with sessions, etcd or Consul, are set with: drivers alone, behind cables, on a clock of their own;
// and the fixture of the conformance suite.
import type { TestContext } from 'node:test'
import type { ChildClient, Fixture } from '../../../src/conformance/index.js'
import type { Clock } from '../../../src/core/clock.js'
import type { Claim, Driver, DriverFactory, Traits } from '../../../src/core/driver.js'
import { systemEnv } from '../../../src/core/engine.js'
import { createLocks } from '../../../src/create-locks.js'
import { startProxy, type TcpProxy } from '../../support/proxy.js'
import { claim as anyClaim } from './asking.js'
import { Cables } from './cables.js'

/** So long that it does not run out, however busy the machine is; a test in which it is to run out says a shorter ttl. */
export const claim = (name: string, more: Partial<Claim> = {}): Claim =>
  anyClaim(name, { ttl: 30_000, ...more })

export interface Tools<More, T extends Traits, F extends DriverFactory<T>> {
  /** A driver alone, closed at the end of the test. */
  driverOf(t: TestContext, addresses: string | readonly string[], more?: More): Driver
  locksOf(
    t: TestContext,
    addresses: string | readonly string[],
    more?: More,
  ): { readonly locks: ReturnType<typeof createLocks<T>>; readonly store: F }
  /**
   * A driver whose every byte goes through a proxy, unless it turns to one of the `others`. With a clock of the test's own, what is to be
   * late is late when the test says so.
   */
  cabled(
    t: TestContext,
    server: { readonly port: number },
    more?: More,
    clock?: Clock,
    others?: readonly string[],
  ): Promise<{ readonly driver: Driver; readonly cable: TcpProxy }>
}

export function toolsFor<
  More extends { readonly requestTimeout?: number },
  T extends Traits,
  F extends DriverFactory<T>,
>(given: (addresses: string | readonly string[], more?: More) => F & DriverFactory<T>): Tools<More, T, F> {
  // A single attempt at a server that has just started, on a busy machine, is not to fail by it. Who tests time-outs says a shorter one.
  const make: typeof given = (addresses, more) =>
    given(addresses, { requestTimeout: 30_000, ...more } as More)
  return {
    driverOf(t, addresses, more) {
      const driver = make(addresses, more)(systemEnv())
      t.after(() => driver.close())
      return driver
    },
    locksOf(t, addresses, more) {
      const store = make(addresses, more)
      const locks = createLocks<T>(store)
      t.after(() => locks.close())
      return { locks, store }
    },
    async cabled(t, { port }, more, clock, others = []) {
      const cable = await startProxy({ port })
      const env = systemEnv()
      const driver = make([`127.0.0.1:${cable.port}`, ...others], more)({ ...env, clock: clock ?? env.clock })
      t.after(async () => {
        cable.heal()
        await driver.close()
        await cable.stop()
      })
      return { driver, cable }
    },
  }
}

interface Server {
  readonly port: number
  pause(): void
  resume(): void
  stop(): Promise<void>
}

interface Parts {
  readonly name: string
  readonly servers: readonly Server[]
  readonly maxLockDelay: number
  readonly maxBatch?: number
  make(addresses: readonly string[]): DriverFactory
  loseHold(name: string): Promise<void>
  readonly childClient: ChildClient
}

/** Clients behind cables, on one server or a cluster. */
export async function sessionFixture(
  parts: Parts,
): Promise<{ readonly fixture: Fixture; readonly close: () => Promise<void> }> {
  const { name, servers, maxLockDelay, maxBatch, make, loseHold, childClient } = parts
  const cables = await Cables.to(
    servers.map(({ port }) => port),
    12,
  )
  const fixture: Fixture = {
    name,
    traits: {
      modes: ['exclusive', 'shared', 'permits'],
      fair: true,
      minTtl: 1_000,
      shared: true,
      maxLockDelay,
      cells: true,
      ...(maxBatch !== undefined && { acquireMany: true, maxBatch }),
    },
    make: () => cables.factory((through) => make(through.map((port) => `127.0.0.1:${port}`))),
    faults: {
      cut: (factory) => cables.cut(factory),
      heal: () => {
        for (const server of servers) server.resume()
        cables.heal()
      },
      stop: () => {
        for (const server of servers) server.pause()
      },
      loseHold,
    },
    childClient,
  }
  const close = async () => {
    await cables.stop()
    for (const server of servers) await server.stop()
  }
  return { fixture, close }
}
