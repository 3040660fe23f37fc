// The Sentinels of a setup: how one is started, and what they say.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Reply, RespError } from '../resp.js'
import { until } from '../until.js'
import { command } from './redis-controls.js'
import { type Flavour, type RedisServer, startNode } from './redis-node.js'

/** What the Sentinels call the master. */
export const masterName = 'holdfast'

// Sentinels find each other by messages every 2 s and look at servers every 10 s; tests have no time for that (ms below).
// But the periods hang together, and with carelessly small ones they fail over for ever:
// - pings come once in `downAfter` at most: a new master, not pinged yet, would be down at once;
// - a replica is fit to be promoted if its INFO, asked for every second while the master is down, is younger than 5 pings;
// - a node that claims to be master for 4 publish periods without being it is made a replica, and a promotion takes a second.
// A Sentinel that was paused for two seconds promotes and demotes nobody for the next thirty (TILT): a busy machine may be paused for so
// long, and no test that waits for a promotion is about that. It needs the time to be answered once again by those it took for down.
const tilt = ['TILT-PERIOD', 1_000]
const periods = ['PING-PERIOD', 300, 'INFO-PERIOD', 300, 'PUBLISH-PERIOD', 500, 'ASK-PERIOD', 100, ...tilt]
// A promotion is given up after this, and after a split vote the next election starts after twice this.
const failoverTimeout = 2500

export interface Watching {
  readonly host: string
  readonly port: number
  readonly quorum: number
  readonly downAfter: number
}

/** Starts one Sentinel over the master at that address. */
export function startWatcher(
  flavour: Flavour,
  { host, port: master, quorum, downAfter }: Watching,
): Promise<RedisServer> {
  return startNode({
    flavour,
    role: 'sentinel',
    preload: [],
    args: (port, data) => {
      const path = join(data, 'sentinel.conf') // the Sentinel rewrites it with what it learns
      const lines = [`port ${port}`, 'bind 127.0.0.1', `dir ${data}`, 'logfile ""']
      lines.push(`sentinel monitor ${masterName} ${host} ${master} ${quorum}`)
      lines.push(`sentinel down-after-milliseconds ${masterName} ${downAfter}`)
      lines.push(`sentinel failover-timeout ${masterName} ${failoverTimeout}`)
      writeFileSync(path, `${lines.join('\n')}\n`)
      return [path, '--sentinel']
    },
    ready: /\+monitor master|Sentinel ID is/,
    settle: (port) => command(port, ['SENTINEL', 'DEBUG', ...periods]),
  })
}

/** Asks the first Sentinel that runs for a fail-over, until it sees a replica fit for it. */
export async function askForFailover(sentinels: readonly RedisServer[]): Promise<void> {
  const awake = sentinels.find((sentinel) => sentinel.running)
  if (!awake) throw new Error('no Sentinel runs that could be asked for a fail-over')
  const accepted = async (): Promise<boolean> => {
    try {
      return (await awake.cli('SENTINEL', 'FAILOVER', masterName)) === 'OK'
    } catch (error) {
      if (error instanceof RespError && error.message.startsWith('NOGOODSLAVE')) return false
      throw error
    }
  }
  await until(accepted, { within: 10_000, what: 'a Sentinel to find a replica fit to be promoted' })
}

/** Resolves with the server, other than `old`, that every running Sentinel names, once it is a master. */
export async function agreedMaster(
  nodes: readonly RedisServer[],
  sentinels: readonly RedisServer[],
  old?: RedisServer,
): Promise<RedisServer> {
  const agreed = async (): Promise<RedisServer | undefined> => {
    const voters = sentinels.filter((sentinel) => sentinel.running)
    const named = await Promise.all(
      voters.map((one) => one.cli('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', masterName)),
    )
    const ports = new Set(named.map((address) => Number((address as Reply[])[1])))
    const chosen = nodes.find((node) => ports.size === 1 && ports.has(node.port))
    if (!chosen || chosen === old) return undefined
    return (await replication(chosen)).get('role') === 'master' ? chosen : undefined
  }
  return until(agreed, { within: 20_000, what: 'every Sentinel to name the same new master' })
}

/** Whether it knows that many other Sentinels, and these replicas, each as a replica and none as down. */
export async function knows(
  sentinel: RedisServer,
  replicas: readonly RedisServer[],
  watchers: number,
): Promise<boolean> {
  const others = (await sentinel.cli('SENTINEL', 'SENTINELS', masterName)) as Reply[]
  const seen = ((await sentinel.cli('SENTINEL', 'REPLICAS', masterName)) as string[][]).map((row) => {
    const value = (key: string): string | undefined => row[row.indexOf(key) + 1]
    return { port: Number(value('port')), well: value('flags') === 'slave', role: value('role-reported') }
  })
  const knows = ({ port }: RedisServer): boolean =>
    seen.some((one) => one.port === port && one.well && one.role === 'slave')
  return others.length === watchers - 1 && replicas.every(knows)
}

/**
 * INFO replication by field; empty while the server does not answer. Sentinels end all client connections of a server
 * whose role they change, so clients that watch a role change meet broken connections.
 */
export async function replication(server: RedisServer): Promise<ReadonlyMap<string, string>> {
  try {
    const info = String(await server.cli('INFO', 'replication'))
    const lines = info.split('\r\n').filter((line) => line.includes(':'))
    return new Map(lines.map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 1)]))
  } catch (error) {
    if (error instanceof RespError) throw error
    return new Map()
  }
}
