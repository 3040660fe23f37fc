// What the Consul tests are set with: drivers alone, behind cables, and a look at what the agent has.
import type { TestContext } from 'node:test'
import type { Driver } from '../../../../src/core/driver.js'
import { systemEnv } from '../../../../src/core/engine.js'
import { createLocks } from '../../../../src/create-locks.js'
import { type ConsulOptions, type ConsulTraits, consul } from '../../../../src/drivers/consul/index.js'
import { lineOf, pathOf } from '../../../../src/drivers/consul/keys.js'
import { startProxy, type TcpProxy } from '../../../support/proxy.js'
import type { ConsulServer } from '../../../support/servers/consul.js'

export type More = Omit<ConsulOptions, 'url'>

/** A driver alone, closed at the end of the test. */
export function driverOf(t: TestContext, url: ConsulOptions['url'], more: More = {}): Driver {
  const driver = consul({ url, minTtl: 1_000, ...more })(systemEnv())
  t.after(() => driver.close())
  return driver
}

export function locksOf(
  t: TestContext,
  url: ConsulOptions['url'],
  more: More = {},
): ReturnType<typeof createLocks<ConsulTraits>> {
  const locks = createLocks(consul({ url, minTtl: 1_000, ...more }))
  t.after(() => locks.close())
  return locks
}

/** A driver whose every byte goes through a proxy. */
export async function cabled(
  t: TestContext,
  server: ConsulServer,
  more: More = {},
): Promise<{ readonly driver: Driver; readonly cable: TcpProxy }> {
  const cable = await startProxy({ port: server.port })
  const driver = consul({ url: `127.0.0.1:${cable.port}`, minTtl: 1_000, ...more })(systemEnv())
  t.after(async () => {
    cable.heal()
    await driver.close()
    await cable.stop()
  })
  return { driver, cable }
}

export interface Key {
  readonly Key: string
  readonly Session?: string
  readonly CreateIndex: number
  readonly ModifyIndex: number
}

/** The places of a line, oldest first. */
export async function placesOf(server: ConsulServer, name: string): Promise<readonly Key[]> {
  const { places } = lineOf('holdfast/', name)
  const kvs = (await server.ask('GET', `/v1/kv/${pathOf(places)}?recurse&consistent`)) as Key[] | undefined
  return [...(kvs ?? [])].sort((a, b) => a.CreateIndex - b.CreateIndex)
}

export async function lockOf(server: ConsulServer, name: string): Promise<Key | undefined> {
  const { lock } = lineOf('holdfast/', name)
  const kvs = (await server.ask('GET', `/v1/kv/${pathOf(lock)}?consistent`)) as Key[] | undefined
  return kvs?.[0]
}

export const endSession = (server: ConsulServer, id: string | undefined): Promise<unknown> =>
  server.ask('PUT', `/v1/session/destroy/${id}`)
