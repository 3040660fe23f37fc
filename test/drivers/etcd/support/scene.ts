// What the etcd tests are set with: drivers, and a look at what the server has.
import * as grpc from '@grpc/grpc-js'
import {
  type EtcdFactory,
  type EtcdOptions,
  type EtcdTraits,
  etcd,
} from '../../../../src/drivers/etcd/index.js'
import { base64, lockKeys } from '../../../../src/drivers/etcd/keys.js'
import type { EtcdServer } from '../../../support/servers/etcd.js'
import { type Tools, toolsFor } from '../../support/session-store.js'

export type More = Omit<EtcdOptions, 'endpoints'>

type Own = Tools<More, EtcdTraits, EtcdFactory>
/** The two ways to speak to a member: what holds for one holds for the other. */
export const protocols: readonly (readonly [name: string, more: More])[] = [
  ['gateway', {}],
  ['grpc', { grpc }],
]

const own: Own = toolsFor((endpoints, more) => etcd({ endpoints, ...more }))
export const driverOf: Own['driverOf'] = own.driverOf
export const locksOf: Own['locksOf'] = own.locksOf
export const cabled: Own['cabled'] = own.cabled

export interface Key {
  readonly key: string
  readonly create_revision: string
  readonly lease?: string
}

/** The places of a line, oldest first. */
export async function placesOf(server: EtcdServer, name: string): Promise<readonly Key[]> {
  const reply = await server.ask('/v3/kv/range', lockKeys('holdfast/', name).all)
  const kvs = (reply['kvs'] ?? []) as Key[]
  return [...kvs].sort((a, b) => Number(a.create_revision) - Number(b.create_revision))
}

export const placeKey = (name: string, attempt: string): string => lockKeys('holdfast/', name).entry(attempt)

export async function put(server: EtcdServer, key: string, value = ''): Promise<void> {
  await server.ask('/v3/kv/put', { key: base64(key), value: base64(value) })
}

export async function valueAt(server: EtcdServer, key: string): Promise<string | undefined> {
  const { kvs } = (await server.ask('/v3/kv/range', { key: base64(key) })) as { kvs?: { value?: string }[] }
  const [kv] = kvs ?? []
  return kv && Buffer.from(kv.value ?? '', 'base64').toString()
}
