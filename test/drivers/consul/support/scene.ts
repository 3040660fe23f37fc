// What the Consul tests are set with: drivers, and a look at what the agent has.
import {
  type ConsulFactory,
  type ConsulOptions,
  type ConsulTraits,
  consul,
} from '../../../../src/drivers/consul/index.js'
import { encodePath, lockKeys } from '../../../../src/drivers/consul/keys.js'
import type { ConsulServer } from '../../../support/servers/consul.js'
import { type Tools, toolsFor } from '../../support/session-store.js'

export type More = Omit<ConsulOptions, 'url'>

type Own = Tools<More, ConsulTraits, ConsulFactory>
const own: Own = toolsFor((url, more) => consul({ url, minTtl: 1_000, ...more }))
export const driverOf: Own['driverOf'] = own.driverOf
export const locksOf: Own['locksOf'] = own.locksOf
export const cabled: Own['cabled'] = own.cabled

export interface Key {
  readonly Key: string
  readonly Session?: string
  readonly CreateIndex: number
  readonly ModifyIndex: number
}

/** The places of a line, oldest first. */
export async function placesOf(server: ConsulServer, name: string): Promise<readonly Key[]> {
  const { entryPrefix } = lockKeys('holdfast/', name)
  const kvs = (await server.ask('GET', `/v1/kv/${encodePath(entryPrefix)}?recurse&consistent`)) as
    | Key[]
    | undefined
  return [...(kvs ?? [])].sort((a, b) => a.CreateIndex - b.CreateIndex)
}

export async function lockOf(server: ConsulServer, name: string): Promise<Key | undefined> {
  const { lock } = lockKeys('holdfast/', name)
  const kvs = (await server.ask('GET', `/v1/kv/${encodePath(lock)}?consistent`)) as Key[] | undefined
  return kvs?.[0]
}

export const endSession = (server: ConsulServer, id: string | undefined): Promise<unknown> =>
  server.ask('PUT', `/v1/session/destroy/${id}`)
