/** A {@link Connection} over ioredis: `Redis` (standalone and Sentinel) or `Cluster`. */
import type { Clock } from '../../core/clock.js'
import { quote } from '../../core/name.js'
import type { Connection, Ioredis, Reply } from './client.js'
import { connectionErrors } from './connection-errors.js'
import { databaseOf, inDatabase } from './database.js'
import { on } from './events.js'
import { handleAsking } from './ioredis-asking.js'
import { retrySooner } from './ioredis-loading.js'
import {
  followCluster,
  repeatsFor,
  runTogether,
  throwLast,
  unlessMoved,
  unlessTryAgain,
} from './ioredis-nodes.js'
import { attach, listenOnCopy, listenOnNode, quiet, reconnect } from './ioredis-subscription.js'
import { loggedIn } from './login.js'
import { toCount } from './reply-shapes.js'
import { scanAll } from './scan.js'

type Command = readonly [string, ...string[]]

/** Members that only some clients have, or that are not in the public type. */
export interface Full extends Ioredis {
  readonly isCluster?: boolean
  readonly options?: {
    readonly keyPrefix?: string
    /** Of the clients of a Cluster's nodes. */
    readonly redisOptions?: { readonly keyPrefix?: string } | undefined
    readonly enableAutoPipelining?: boolean
    readonly sentinels?: readonly unknown[] | null
    readonly failoverDetector?: boolean
    readonly natMap?: unknown
    readonly host?: string
    readonly port?: number
    readonly readOnly?: boolean
    readonly retryStrategy?: unknown
  }
  /** Undocumented. `firstError`: of the last socket. */
  readonly connector?: { readonly firstError?: Error }
  nodes?(role: 'master' | 'all'): Full[]
  pipeline(): Pipeline
  evalsha(sha: string, numberOfKeys: number, keys: readonly string[], args: readonly string[]): Promise<Reply>
  eval(text: string, numberOfKeys: number, keys: readonly string[], args: readonly string[]): Promise<Reply>
  duplicate(override?: object): Full
  disconnect(reconnect?: boolean): void
  subscribe(channel: string): Promise<unknown>
  unsubscribe(channel: string): Promise<unknown>
  ping(): Promise<unknown>
  info(section: string): Promise<string>
}

interface Pipeline {
  call(command: string, ...args: string[]): unknown
  exec(): Promise<[error: Error | null, reply: unknown][] | null>
}

export function fromIoredis(given: Ioredis, clock: Clock): Connection {
  const client = given as Full
  const cluster = client.isCluster === true
  const events = cluster
    ? { down: ['-node', 'close'], up: ['+node', 'ready'] }
    : { down: ['close'], up: ['ready'] }
  // While a Cluster changes, replicas come and go with every list of its nodes. The driver never reads a lock from one.
  const isReplica = (node: unknown) => (node as Full | undefined)?.options?.readOnly === true
  const keyPrefix = client.options?.keyPrefix ?? ''
  const nodePrefix = (cluster && client.options?.redisOptions?.keyPrefix) || ''
  if (!keyPrefix.startsWith(nodePrefix)) {
    throw new TypeError(
      `the Cluster client has two key prefixes, ${quote(keyPrefix)} and in redisOptions ${quote(nodePrefix)}; set one of them`,
    )
  }

  const errors = connectionErrors(
    client,
    clock,
    cluster,
    ['node error', 'sentinelError'],
    () => client.connector?.firstError,
  )
  const follow = cluster ? followCluster(client, clock) : undefined
  let hedgedAt = Number.NEGATIVE_INFINITY
  /** Sends the commands over one connection: in a Cluster that of the node which has the keys. */
  const inOrder = async (keys: readonly string[], commands: readonly Command[]) => {
    if (follow === undefined) {
      const answers = await runTogether(client, commands)
      const failed = answers.find((answer) => answer instanceof Error)
      if (failed) throw failed
      return answers
    }
    return follow(keyPrefix + keys[0], commands.map(prefixed))
  }
  /** Adds what the Cluster client's prefix has beyond that of a node's client. */
  const prefixed = ([name, text, count, ...rest]: Command): Command => {
    if (name === 'WAIT' || count === undefined)
      return [name, ...[text, count].filter((part) => part !== undefined)]
    const keys = rest.slice(0, Number(count)).map((key) => keyPrefix.slice(nodePrefix.length) + key)
    return [name, text ?? '', count, ...keys, ...rest.slice(Number(count))]
  }

  const connection: Connection = {
    cluster,
    isSticky: (client.options?.sentinels?.length ?? 0) > 0 && client.options?.failoverDetector !== true,
    keyPrefix,
    get ended() {
      return client.status === 'end'
    },
    get outage() {
      return errors.last
    },
    watchOutages: errors.start,
    unwatchOutages: errors.stop,
    get repeats() {
      return clock.now() - hedgedAt < repeatsFor
    },
    // Passes arrays: ioredis flattens its arguments in any case.
    run(how, script, keys, args) {
      const piped = pipelines(client)
      const answer = piped
        ? alone(client, how, script, String(keys.length), ...keys, ...args)
        : how === 'EVAL'
          ? client.eval(script, keys.length, keys, args)
          : client.evalsha(script, keys.length, keys, args)
      if (!cluster) return answer
      const directly = async () => {
        const [reply] = await inOrder(keys, [[how, script, String(keys.length), ...keys, ...args]])
        return reply as Reply
      }
      const hedged = () => {
        hedgedAt = clock.now()
      }
      const followed = unlessMoved(answer, directly, hedged)
      return piped ? followed : unlessTryAgain(clock, followed, directly, hedged)
    },

    async runAndWait(how, script, keys, args, replicas, timeout) {
      const wait = ['WAIT', String(replicas), String(timeout)] as const
      const [ran, waited] = await inOrder(keys, [[how, script, String(keys.length), ...keys, ...args], wait])
      return [ran as Reply, toCount('WAIT', waited)]
    },

    command: (...command) => one(client, command).catch(throwLast),

    scan: (pattern) =>
      scanAll(
        async function* () {
          if (cluster && client.nodes?.('master').length === 0) await client.call('PING')
          for (const node of client.nodes?.('master') ?? [client]) yield (...command) => one(node, command)
        },
        pattern,
        cluster,
      ),

    watch(down, up) {
      const stops = [
        ...events.down.map((event) => on(client, event, (node) => isReplica(node) || down())),
        ...events.up.map((event) => on(client, event, up)),
        cluster ? handleAsking(client) : retrySooner(client, clock),
      ]
      return () => {
        for (const stop of stops) stop()
      }
    },

    duplicate: () => fromIoredis(quiet(cluster ? client.duplicate([]) : client.duplicate()), clock),

    listen(channel, handler, setApart) {
      if (setApart)
        return { close: attach(client, channel, handler), reconnect: () => reconnect(client, 'ready') }
      return cluster ? listenOnNode(client, clock, channel, handler) : listenOnCopy(client, channel, handler)
    },

    reconnect: () => reconnect(client, 'ready'),

    close: () => client.disconnect(),
  }
  // A Cluster has only database 0, and the client leaves out the option.
  if (cluster) return connection
  const known = client.options?.sentinels?.length ? connection : loggedIn(connection, errors, clock)
  return inDatabase(known, () => databaseOf(client))
}

/** The nodes of a Cluster need not have the option that the Cluster has. */
const pipelines = (client: Full) => client.options?.enableAutoPipelining === true

function one(client: Full, command: Command): Promise<Reply> {
  return pipelines(client) ? alone(client, ...command) : (client.call(...command) as Promise<Reply>)
}

/**
 * Sends a command in its own pipeline. A client with `enableAutoPipelining` would choose the slot by the script and not by the keys,
 * and ioredis 5.0 throws where the error cannot be caught.
 */
async function alone(client: Full, ...command: readonly [string, ...string[]]): Promise<Reply> {
  const [answer] = await runTogether(client, [command])
  if (answer instanceof Error) throw answer
  return answer as Reply
}
