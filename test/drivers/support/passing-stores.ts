// etcd, Consul and ZooKeeper, which mint the token of a pass, each with one server.
import type { ChildClient } from 'holdfast/conformance'
import { consul } from '../../../src/drivers/consul/index.js'
import { etcd } from '../../../src/drivers/etcd/index.js'
import { zookeeper } from '../../../src/drivers/zookeeper/index.js'
import type { DriverFactory } from '../../../src/index.js'
import { startConsul } from '../../support/servers/consul.js'
import { startEtcd } from '../../support/servers/etcd.js'
import { startZookeeper } from '../../support/servers/zookeeper.js'

/** `long`: no session ends, however busy the machine is. `short`: it ends soon after its client has gone. */
export type Session = 'long' | 'short'
export interface Store {
  readonly name: string
  readonly port: number
  at(port: number, session: Session): DriverFactory
  readonly child: ChildClient
}

const host = '127.0.0.1'
const requestTimeout = { long: 30_000, short: 2_000 } as const
const sessionTimeout = { long: 30_000, short: 8_000 } as const
export const ttlOf = { long: 15_000, short: 4_000 } as const
/** A killed or silent client's lock is free after its session; the servers notice at ticks of their own, late on a busy machine. */
export const bound: number = 2 * sessionTimeout.short + 10_000

const childClient = (driver: string, ...args: unknown[]): ChildClient => ({
  module: new URL(`../${driver}/support/in-child.js`, import.meta.url).href,
  export: 'make',
  args,
})
const ofZookeeper = (port: number, session: Session) => ({
  servers: `${host}:${port}`,
  sessionTimeout: sessionTimeout[session],
  tickTime: 500,
})

export async function startStores(): Promise<{
  readonly stores: readonly Store[]
  readonly stop: () => Promise<unknown>
}> {
  const [onEtcd, onConsul, onZookeeper] = await Promise.all([
    startEtcd(),
    startConsul(),
    startZookeeper({ config: ['maxSessionTimeout=60000'] }),
  ])
  const stores: readonly Store[] = [
    {
      name: 'etcd',
      port: onEtcd.port,
      at: (port, session) => etcd({ endpoints: `${host}:${port}`, requestTimeout: requestTimeout[session] }),
      child: childClient('etcd', [onEtcd.url]),
    },
    {
      name: 'consul',
      port: onConsul.port,
      at: (port, session) =>
        consul({ url: `${host}:${port}`, minTtl: 1_000, requestTimeout: requestTimeout[session] }),
      child: childClient('consul', [onConsul.url]),
    },
    {
      name: 'zookeeper',
      port: onZookeeper.port,
      at: (port, session) => zookeeper(ofZookeeper(port, session)),
      child: childClient('zookeeper', ofZookeeper(onZookeeper.port, 'short')),
    },
  ]
  return { stores, stop: () => Promise.all([onEtcd.stop(), onConsul.stop(), onZookeeper.stop()]) }
}
