// What the etcd tests are set with: drivers alone, behind cables, and a look at what the server has.
import type { TestContext } from 'node:test'
import type { Driver } from '../../../../src/core/driver.js'
import { systemEnv } from '../../../../src/core/engine.js'
import { createLocks } from '../../../../src/create-locks.js'
import {
  type EtcdFactory,
  type EtcdOptions,
  type EtcdTraits,
  etcd,
} from '../../../../src/drivers/etcd/index.js'
import { base64, lineOf } from '../../../../src/drivers/etcd/keys.js'
import { startProxy, type TcpProxy } from '../../../support/proxy.js'
import type { EtcdServer } from '../../../support/servers/etcd.js'

export type More = Omit<EtcdOptions, 'endpoints'>

/** A driver alone, closed at the end of the test. */
export function driverOf(t: TestContext, endpoints: EtcdOptions['endpoints'], more: More = {}): Driver {
  const driver = etcd({ endpoints, ...more })(systemEnv())
  t.after(() => driver.close())
  return driver
}

export function locksOf(
  t: TestContext,
  endpoints: EtcdOptions['endpoints'],
  more: More = {},
): { readonly locks: ReturnType<typeof createLocks<EtcdTraits>>; readonly store: EtcdFactory } {
  const store = etcd({ endpoints, ...more })
  const locks = createLocks(store)
  t.after(() => locks.close())
  return { locks, store }
}

/** A driver whose every byte goes through a proxy. */
export async function cabled(
  t: TestContext,
  server: EtcdServer,
  more: More = {},
): Promise<{ readonly driver: Driver; readonly cable: TcpProxy }> {
  const cable = await startProxy({ port: server.port })
  const driver = etcd({ endpoints: `127.0.0.1:${cable.port}`, ...more })(systemEnv())
  t.after(async () => {
    cable.heal()
    await driver.close()
    await cable.stop()
  })
  return { driver, cable }
}

export interface Key {
  readonly key: string
  readonly create_revision: string
  readonly lease?: string
}

/** The places of a line, oldest first. */
export async function placesOf(server: EtcdServer, name: string): Promise<readonly Key[]> {
  const reply = await server.ask('/v3/kv/range', lineOf('holdfast/', name).all)
  const kvs = (reply['kvs'] ?? []) as Key[]
  return [...kvs].sort((a, b) => Number(a.create_revision) - Number(b.create_revision))
}

export const placeKey = (name: string, attempt: string): string => lineOf('holdfast/', name).place(attempt)

export async function put(server: EtcdServer, key: string, value = ''): Promise<void> {
  await server.ask('/v3/kv/put', { key: base64(key), value: base64(value) })
}

export async function valueAt(server: EtcdServer, key: string): Promise<string | undefined> {
  const { kvs } = (await server.ask('/v3/kv/range', { key: base64(key) })) as { kvs?: { value?: string }[] }
  const [kv] = kvs ?? []
  return kv && Buffer.from(kv.value ?? '', 'base64').toString()
}
