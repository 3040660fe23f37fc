// A Redis master with replicas, watched by Sentinels, and fail-overs that lose writes or lose none, as the test asks.
import { until } from '../until.js'
import type { MemberCables } from './member-cables.js'
import { type RedisOptions, startAll, startRedis, stopAll } from './redis.js'
import type { RedisServer } from './redis-node.js'
import {
  agreedMaster,
  askForFailover,
  knows,
  masterName,
  replication,
  startWatcher,
} from './redis-watchers.js'

/** How to start the setup; the rest holds for the data servers. */
export interface SentinelOptions extends Omit<RedisOptions, 'port'> {
  /** Default 1. */
  readonly replicas?: number
  /** Default 3. The quorum is the majority. */
  readonly sentinels?: number
  /** A server silent for this many milliseconds is counted as down. Default 1000. */
  readonly downAfter?: number
  /** The data servers are known to each other and to the Sentinels by these. Clients have to be told: `natMap`. */
  readonly cables?: MemberCables
}

/** How a fail-over comes about. */
export interface Promotion {
  /** True: the new master has every acknowledged write. False: it lacks those since `cutReplication()`. */
  readonly sync: boolean
  /** `kill` -9 the master (default), `freeze` it (a later `resume()` brings the old master back), or by `command`. */
  readonly how?: 'kill' | 'freeze' | 'command'
}

/** A master, its replicas and its Sentinels. */
export interface SentinelSetup extends AsyncDisposable {
  /** What the Sentinels call the master. */
  readonly name: string
  readonly sentinels: readonly RedisServer[]
  /** Of the Sentinels, for client configurations. */
  readonly addresses: readonly { readonly host: string; readonly port: number }[]
  /** `redis+sentinel://127.0.0.1:P1,127.0.0.1:P2/NAME` */
  readonly url: string
  /** The data servers; the first was the first master. */
  readonly nodes: readonly RedisServer[]
  /** As of the start or the last `promote()`. */
  master(): RedisServer
  /** The data servers that run and are not `master()`. */
  replicas(): readonly RedisServer[]
  /** Resolves once every replica has all that the master has, and every running Sentinel sees it as a replica. */
  synced(): Promise<void>
  /** The replicas have all up to now, and what the master acknowledges from now on reaches none: frozen, links dropped. */
  cutReplication(): Promise<void>
  /** Undoes `cutReplication()` without a fail-over. */
  restoreReplication(): void
  /** Fails over and resolves with the new master once every running Sentinel names it and it takes writes. */
  promote(promotion: Promotion): Promise<RedisServer>
  /** Resolves with the master once every running Sentinel names it and all other servers follow it, whatever was done to them. */
  settled(): Promise<RedisServer>
  stop(): Promise<void>
}

/** Starts master, replicas and Sentinels; resolves when all know each other and the replicas are in sync. */
export async function startSentinel(options: SentinelOptions = {}): Promise<SentinelSetup> {
  const { replicas = 1, sentinels: watchers = 3, downAfter = 1000, cables, ...data } = options
  const host = (n: number) => cables?.address(n) ?? '127.0.0.1'
  const start = async (n: number, ...more: readonly string[]): Promise<RedisServer> => {
    const announced = cables === undefined ? [] : ['--replica-announce-ip', host(n)]
    const server = await startRedis({ ...data, args: [...announced, ...more, ...(data.args ?? [])] })
    await cables?.lay(n, server.port)
    return server
  }
  const first = await start(0)
  const others = await startAll(replicas, (n) =>
    start(n + 1, '--replicaof', `${host(0)} ${first.port}`),
  ).catch((error) => stopAfter([first], error))
  const nodes = [first, ...others]
  const quorum = Math.floor(watchers / 2) + 1
  const sentinels = await startAll(watchers, () =>
    startWatcher(data.flavour ?? 'redis7', { host: host(0), port: first.port, quorum, downAfter }),
  ).catch((error) => stopAfter(nodes, error))
  const setup = operate(nodes, sentinels)
  try {
    await setup.synced()
  } catch (error) {
    await stopAfter([...nodes, ...sentinels], error)
  }
  return setup
}

async function stopAfter(servers: readonly RedisServer[], error: unknown): Promise<never> {
  await stopAll(servers)
  throw error
}

// Longer than a function should be: the verbs share who is master and who is frozen.
function operate(nodes: readonly RedisServer[], sentinels: readonly RedisServer[]): SentinelSetup {
  let master = nodes[0]!
  let cut = false
  const replicas = () => nodes.filter((node) => node !== master && node.running)

  const synced = async (): Promise<void> => {
    const caughtUp = async (): Promise<boolean> => {
      const offset = (await replication(master)).get('master_repl_offset')
      const reports = await Promise.all(replicas().map(replication))
      const has = (report: ReadonlyMap<string, string>): boolean =>
        report.get('master_link_status') === 'up' && Number(report.get('slave_repl_offset')) >= Number(offset)
      return reports.every(has)
    }
    await until(caughtUp, { within: 15_000, what: 'the replicas to have what the master has' })
    const watchers = sentinels.filter((one) => one.running)
    const seen = () => Promise.all(watchers.map((one) => knows(one, replicas(), sentinels.length)))
    const what = 'every Sentinel to know the replicas as such, and the other Sentinels'
    await until(async () => (await seen()).every(Boolean), { within: 10_000, what })
  }
  const cutReplication = async (): Promise<void> => {
    await synced()
    for (const replica of replicas()) replica.pause()
    // A frozen replica still has a socket, and what the kernel took for it there it would read when it wakes up.
    await master.cli('CLIENT', 'KILL', 'TYPE', 'replica')
    cut = true
  }
  const restoreReplication = (): void => {
    for (const replica of replicas()) replica.resume()
    cut = false
  }
  const promote = async ({ sync, how = 'kill' }: Promotion): Promise<RedisServer> => {
    if (sync && cut)
      throw new Error('promote({ sync: true }) after cutReplication(): writes since then cannot be kept')
    if (!sync && how === 'command') throw new Error("promote({ sync: false }) needs how: 'kill' or 'freeze'")
    if (sync) await synced()
    else if (!cut) await cutReplication()
    const old = master
    if (how === 'kill') await old.kill9()
    if (how === 'freeze') old.pause()
    restoreReplication()
    if (how === 'command') await askForFailover(sentinels)
    master = await agreedMaster(nodes, sentinels, old)
    return master
  }
  const settled = async (): Promise<RedisServer> => {
    const follows = async (node: RedisServer): Promise<boolean> => {
      const report = await replication(node)
      return (
        report.get('role') === 'slave' &&
        report.get('master_port') === `${master.port}` &&
        report.get('master_link_status') === 'up'
      )
    }
    const all = async (): Promise<boolean> => {
      master = await agreedMaster(nodes, sentinels)
      return (await Promise.all(replicas().map(follows))).every(Boolean)
    }
    await until(all, { within: 60_000, what: 'all servers to follow the master that the Sentinels name' })
    return master
  }
  const stop = () => stopAll([...sentinels, ...nodes])
  const addresses = sentinels.map(({ host, port }) => ({ host, port }))
  return {
    name: masterName,
    sentinels,
    addresses,
    url: `redis+sentinel://${addresses.map(({ host, port }) => `${host}:${port}`).join(',')}/${masterName}`,
    nodes,
    master: () => master,
    replicas,
    synced,
    cutReplication,
    restoreReplication,
    promote,
    settled,
    stop,
    [Symbol.asyncDispose]: stop,
  }
}
