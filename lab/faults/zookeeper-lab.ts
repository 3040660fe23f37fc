/** What the lab's ZooKeepers share: how sessions are set, who connects, and for how long a waiter may wait in the end. */
import { zookeeper } from 'holdfast/zookeeper'
import type { ZookeeperOptions, ZookeeperServer } from '../../test/support/servers/zookeeper.js'
import type { Client } from './store.js'

const host = '127.0.0.1'

/** ms. Sessions are short, so that they end now and then under a worker that is paused. */
export const tickTime = 200
const sessionTimeout = 2_000
/** Ticks after which a leader or follower that says nothing is replaced or left. */
export const syncLimit = 10

export const labZookeeper: ZookeeperOptions = {
  tickTime,
  // The nodes of locks that nobody uses are cleared away at once, not after minutes: numbers of places begin anew all the time.
  properties: ['-Dznode.container.checkIntervalMs=300'],
}

export function openZookeeper(ports: readonly number[]): Client {
  const servers = ports.map((port) => `${host}:${port}`)
  return { driver: zookeeper({ servers, sessionTimeout, tickTime }), close: () => undefined }
}

/**
 * docs/drivers/zookeeper.md: a dead holder is gone after its session and a tick, or a server is found again after two fifths of the
 * session and an eighth for each other one. Then those before have their sections, of two ttls at most, one after the other.
 */
export function settlesOf(servers: number, ttl: number, workers: number): number {
  const found = sessionTimeout * (2 / 5 + (servers - 1) / 8)
  return sessionTimeout + tickTime + found + 1_000 + 2 * ttl * (workers - 1)
}

/** How much longer than its holder the store may keep a place, in ms: an ensemble without a leader ends no session. */
export const keeps: number = sessionTimeout + tickTime + 2_000

export async function versionOf(server: ZookeeperServer): Promise<string> {
  return /version: ([\d.]+)/.exec(await server.ask('srvr'))?.[1] ?? 'unknown'
}
