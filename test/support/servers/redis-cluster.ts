// A Redis Cluster, its slots, and their migration step by step.
import { until } from '../until.js'
import type { MemberCables } from './member-cables.js'
import { onFreePort } from './process.js'
import { type RedisOptions, startAll, startRedis, stopAll } from './redis.js'
import { type Migration, migration, readNodeId, settled, untilAll } from './redis-migration.js'
import type { RedisServer } from './redis-node.js'

export type { Migration } from './redis-migration.js'

/** How to start a cluster; the rest holds for every node. */
export interface ClusterOptions extends Omit<RedisOptions, 'port'> {
  /** Default 3. */
  readonly masters?: number
  /** Per master. Default 0. */
  readonly replicas?: number
  /** A node silent for this many milliseconds is counted as down. Default 2000. */
  readonly nodeTimeout?: number
  /** Nodes are known to each other and to clients by these. Clients that are not to be cut off with a node have to be told: `natMap`. */
  readonly cables?: MemberCables
}

/** A running cluster. */
export interface ClusterSetup extends AsyncDisposable {
  /** Masters first, as they were started. */
  readonly nodes: readonly RedisServer[]
  readonly masters: readonly RedisServer[]
  readonly replicas: readonly RedisServer[]
  readonly addresses: readonly { readonly host: string; readonly port: number }[]
  /** `redis+cluster://127.0.0.1:P1,127.0.0.1:P2` */
  readonly url: string
  keySlot(key: string): Promise<number>
  /** The node that serves the slot now, as the running nodes see it. */
  findOwner(slot: number): Promise<RedisServer>
  /** Resolves when every running node knows it is there. One that failed half-way can be called again, and continues. */
  migrateSlot(slot: number, to: RedisServer): Promise<void>
  /** Starts a migration and leaves it half-way. */
  beginMigration(slot: number, to: RedisServer): Promise<Migration>
  /** Makes a replica the master of its slots: on its own (default), or with its master's consent. */
  failOver(replica: RedisServer, mode?: 'takeover' | 'agreed'): Promise<void>
  /** The masters, if every one of them has as many replicas as in the beginning, whether or not all slots are served; else undefined. */
  led(): Promise<readonly RedisServer[] | undefined>
  /** Resolves with the masters once every node says that all works, and every master has as many replicas as in the beginning. */
  settled(): Promise<readonly RedisServer[]>
  stop(): Promise<void>
}

const slots = 16_384

/**
 * Starts a cluster and resolves when every node says that all of it works. That takes a good 2 s, however small it is:
 * a Redis master waits that long after its start before it believes in its cluster.
 */
export async function startCluster(options: ClusterOptions = {}): Promise<ClusterSetup> {
  const { masters = 3, replicas = 0, nodeTimeout = 2000, cables, ...each } = options
  const address = (n: number) => cables?.address(n) ?? '127.0.0.1'
  const start = async (n: number, bus: number): Promise<RedisServer> => {
    const own = [
      '--cluster-enabled',
      'yes',
      '--cluster-port',
      `${bus}`,
      '--cluster-node-timeout',
      `${nodeTimeout}`,
      ...(cables === undefined ? [] : ['--cluster-announce-ip', address(n)]),
    ]
    const node = await startRedis({ ...each, args: [...own, ...(each.args ?? [])] })
    for (const port of [node.port, bus]) await cables?.lay(n, port)
    return node
  }
  const nodes = await startAll(masters * (1 + replicas), (n) => onFreePort((bus) => start(n, bus)))
  try {
    await join(nodes, masters, address)
  } catch (error) {
    await stopAll(nodes)
    throw error
  }
  return operate(nodes, masters, nodeTimeout)
}

async function join(
  nodes: readonly RedisServer[],
  masters: number,
  address: (n: number) => string,
): Promise<void> {
  const buses = await Promise.all(
    nodes.map(async (node) => Number((await readConfig(node, 'cluster-port')) ?? 0)),
  )
  for (const [index, node] of nodes.entries()) {
    await node.cli('CLUSTER', 'SET-CONFIG-EPOCH', index + 1)
    if (index >= masters) continue
    const first = Math.floor((index * slots) / masters)
    const last = Math.floor(((index + 1) * slots) / masters) - 1
    await node.cli('CLUSTER', 'ADDSLOTSRANGE', first, last)
  }
  const ids = await Promise.all(nodes.map(readNodeId))
  const seenBy = async (node: RedisServer) => String(await node.cli('CLUSTER', 'NODES'))
  /** A handshake that is not answered in time makes the server give up permanently, so missing nodes are met again. */
  const acquainted = async (node: RedisServer): Promise<boolean> => {
    const known = await seenBy(node)
    if (known.includes('handshake')) return false
    const missing = [...nodes.keys()].filter((index) => !known.includes(ids[index]!))
    for (const index of missing)
      await node.cli('CLUSTER', 'MEET', address(index), nodes[index]!.port, buses[index]!)
    return missing.length === 0
  }
  await untilAll(nodes, acquainted, 'every node to know every other').catch(async (error: Error) => {
    throw new Error(`${error.message}; they know\n${(await Promise.all(nodes.map(seenBy))).join('\n')}`)
  })
  for (const [index, replica] of nodes.slice(masters).entries()) {
    await replica.cli('CLUSTER', 'REPLICATE', ids[index % masters]!)
  }
  await untilAll(nodes, isWell, 'every node to say that the cluster works')
  await untilAll(nodes.slice(masters), hasMaster, 'every replica to be in sync')
}

// Longer than a function should be: a table of short verbs over the nodes.
function operate(nodes: readonly RedisServer[], masters: number, nodeTimeout: number): ClusterSetup {
  const addresses = nodes.map(({ host, port }) => ({ host, port }))
  const running = (): RedisServer[] => nodes.filter((node) => node.running)
  const any = (): RedisServer => {
    const node = running()[0]
    if (!node) throw new Error('no node of the cluster runs')
    return node
  }
  const findOwner = async (slot: number): Promise<RedisServer> => {
    for (const node of running()) {
      const line = String(await node.cli('CLUSTER', 'NODES'))
        .split('\n')
        .find((line) => /myself,master/.test(line))
      const ranges = (line?.split(' ').slice(8) ?? []).filter((range) => !range.startsWith('['))
      const bounds = ranges.map((range) => range.split('-').map(Number) as [number, number?])
      if (bounds.some(([first, last = first]) => slot >= first && slot <= last)) return node
    }
    throw new Error(`no running node owns slot ${slot}`)
  }
  const beginMigration = async (slot: number, to: RedisServer): Promise<Migration> => {
    const from = await findOwner(slot)
    if (from === to) throw new Error(`slot ${slot} is already on port ${to.port}`)
    await to.cli('CLUSTER', 'SETSLOT', slot, 'IMPORTING', await readNodeId(from))
    await from.cli('CLUSTER', 'SETSLOT', slot, 'MIGRATING', await readNodeId(to))
    return migration(slot, from, to, running)
  }
  const migrateSlot = async (slot: number, to: RedisServer): Promise<void> => {
    if ((await findOwner(slot)) !== to) return (await beginMigration(slot, to)).finish()
    await settled(slot, to, running())
    // One that learned of it from the others only may still believe that it gives the slot away.
    for (const node of running()) {
      const replica = String(await node.cli('INFO', 'replication')).includes('role:slave')
      if (!replica) await node.cli('CLUSTER', 'SETSLOT', slot, 'STABLE')
    }
  }
  const elected = new Map<RedisServer, number>()
  /**
   * A node votes only for what it knows to be a replica, and twice for replicas of one master only after two node timeouts.
   * A replica asks for votes once.
   */
  const electable = async (replica: RedisServer): Promise<void> => {
    const rest = 2 * nodeTimeout - (performance.now() - (elected.get(replica) ?? Number.NEGATIVE_INFINITY))
    if (rest > 0) await new Promise((resolve) => setTimeout(resolve, rest))
    const own = new RegExp(`^${await readNodeId(replica)} \\S+ \\S*slave`, 'm')
    const knows = async (node: RedisServer) => own.test(String(await node.cli('CLUSTER', 'NODES')))
    await untilAll(running(), knows, `every node to know that port ${replica.port} is a replica`)
  }
  const failOver = async (replica: RedisServer, mode: 'takeover' | 'agreed' = 'takeover'): Promise<void> => {
    if (mode === 'agreed') await electable(replica)
    await replica.cli('CLUSTER', 'FAILOVER', ...(mode === 'agreed' ? [] : ['TAKEOVER']))
    const isMaster = async () => String(await replica.cli('INFO', 'replication')).includes('role:master')
    await until(isMaster, { within: 10_000, what: `the replica on port ${replica.port} to be a master` })
    elected.set(replica, performance.now())
  }
  const replicasEach = nodes.length / masters - 1
  const led = async (): Promise<readonly RedisServer[] | undefined> => {
    const roles = await Promise.all(nodes.map((node) => node.cli('INFO', 'replication').then(String)))
    const leaders = nodes.filter((_, n) => roles[n]?.includes('role:master'))
    const followed = roles.every((role) =>
      role.includes('role:master')
        ? role.includes(`connected_slaves:${replicasEach}`)
        : role.includes('master_link_status:up'),
    )
    return followed && leaders.length === masters ? leaders : undefined
  }
  const whole = async (): Promise<readonly RedisServer[]> => {
    const all = async () => {
      const leaders = await led()
      return leaders !== undefined && (await Promise.all(nodes.map(isWell))).every(Boolean) && leaders
    }
    return (await until(() => all().catch(() => false as const), {
      within: 60_000,
      every: 50,
      what: 'every master to have its replicas',
    })) as readonly RedisServer[]
  }
  const stop = () => stopAll(nodes)
  return {
    nodes,
    masters: nodes.slice(0, masters),
    replicas: nodes.slice(masters),
    addresses,
    url: `redis+cluster://${addresses.map(({ host, port }) => `${host}:${port}`).join(',')}`,
    keySlot: async (key) => Number(await any().cli('CLUSTER', 'KEYSLOT', key)),
    findOwner,
    beginMigration,
    migrateSlot,
    failOver,
    led,
    settled: whole,
    stop,
    [Symbol.asyncDispose]: stop,
  }
}

async function readConfig(node: RedisServer, key: string): Promise<string | undefined> {
  return ((await node.cli('CONFIG', 'GET', key)) as string[])[1]
}

async function isWell(node: RedisServer): Promise<boolean> {
  return String(await node.cli('CLUSTER', 'INFO')).includes('cluster_state:ok')
}

async function hasMaster(node: RedisServer): Promise<boolean> {
  return String(await node.cli('INFO', 'replication')).includes('master_link_status:up')
}
