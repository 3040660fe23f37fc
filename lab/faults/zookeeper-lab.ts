/** Shared by the lab's ZooKeeper drivers: session settings, clients, and how long a waiter may wait at the end. */
import { zookeeper } from 'holdfast/zookeeper'
import type { ZookeeperOptions, ZookeeperServer } from '../../test/support/servers/zookeeper.js'
import type { Client } from './store.js'

const host = '127.0.0.1'

/** ms. Sessions are short, so that they sometimes expire while a worker is paused. */
export const tickTime = 200
const sessionTimeout = 2_000
/** Ticks of silence after which a leader or follower is replaced or left. */
export const syncLimit = 10

export const labZookeeper: ZookeeperOptions = {
  tickTime,
  // Nodes of unused locks are removed at once, not after minutes: sequence numbers restart all the time.
  properties: ['-Dznode.container.checkIntervalMs=300'],
}

export function openZookeeper(ports: readonly number[]): Client {
  const servers = ports.map((port) => `${host}:${port}`)
  return { driver: zookeeper({ servers, sessionTimeout, tickTime }), close: () => undefined }
}

/**
 * docs/drivers/zookeeper.md: a dead holder is gone after its session and a tick, or a server is found again after two fifths of the session
 * and an eighth for each other one. Then the waiters ahead have their sections, of at most two ttls each, one after another.
 */
export function settleTime(servers: number, ttl: number, workers: number): number {
  const found = sessionTimeout * (2 / 5 + (servers - 1) / 8)
  return sessionTimeout + tickTime + found + 1_000 + 2 * ttl * (workers - 1)
}

/** How much longer than its holder the store may keep a queue entry, in ms: an ensemble without a leader expires no session. */
export const retainedAfterDeath: number = sessionTimeout + tickTime + 2_000

export async function readVersion(server: ZookeeperServer): Promise<string> {
  return /version: ([\d.]+)/.exec(await server.ask('srvr'))?.[1] ?? 'unknown'
}
