/** A {@link Connection} over node-redis 5+: client, cluster or sentinel. How it listens stands in `node-redis-listen.ts`. */
import type { Clock } from '../../core/clock.js'
import type { Connection, Ear, Listening, NodeRedis, Reply } from './client.js'
import { attach, destroy, listenOnACopy, listenOnANode, quiet } from './node-redis-listen.js'
import { Nodes } from './node-redis-nodes.js'

type Options = { readonly keyPrefix?: string; readonly socket?: object }
type Send = Record<'typeMapping' | 'timeout', object | undefined>
type Args = readonly string[]

export interface Single extends NodeRedis {
  readonly isReady: boolean
  readonly options?: Options
  sendCommand(args: Args, options?: Send): Promise<unknown>
  subscribe(channel: string, listener: (text: string) => void): Promise<unknown>
  unsubscribe(channel: string, listener: (text: string) => void): Promise<unknown>
  duplicate(overrides?: object): Single
}

export interface Clustered extends NodeRedis {
  readonly _options?: Options
  readonly masters: readonly object[]
  sendCommand(key: string | undefined, readonly: boolean, args: Args, options?: Send): Promise<unknown>
  nodeClient(node: object): Promise<Single>
  getNodeClientForKey?(key: string): Promise<Single>
}

interface Sentinel extends Omit<Single, 'sendCommand'> {
  sendCommand(readonly: boolean, args: Args, options?: Send): Promise<unknown>
  use<T>(fn: (client: { sendCommand: Sentinel['sendCommand'] }) => Promise<T>): Promise<T>
  /** What each of its commands goes through, with the client of the master. Not documented, so it may be missing. */
  _execute?<T>(readonly: boolean, fn: (master: Single) => Promise<T>): Promise<T>
}

/**
 * Strings, whatever the client maps replies to. And no `timeout`: theirs ends only commands not written yet, and costs an
 * AbortSignal for each; the driver has its own.
 */
const plain: Send = { typeMapping: {}, timeout: undefined }

/** What the three kinds do differently. */
interface Way {
  readonly cluster: boolean
  readonly keyPrefix: string
  send(key: string | undefined, args: Args): Promise<unknown>
  both(key: string, first: Args, second: Args): Promise<readonly [unknown, unknown]>
  masters(): AsyncIterable<(args: Args) => Promise<unknown>>
  listen(channel: string, ear: Ear): Listening
  /** What the client itself does not tell of its connections. */
  watch?(down: () => void, up: () => void): () => void
}

export function fromNodeRedis(given: NodeRedis, clock: Clock): Connection {
  const way =
    'nodeClient' in given
      ? clustered(given as Clustered, clock)
      : 'use' in given
        ? sentinel(given as unknown as Sentinel)
        : single(given as Single)
  const { keyPrefix } = way
  const full = (key: string) => keyPrefix + key
  // A raw command does not get the client's key prefix by itself.
  const script = (how: string, text: string, keys: Args, args: Args) => [
    how,
    text,
    String(keys.length),
    ...keys.map(full),
    ...args,
  ]

  return {
    cluster: way.cluster,
    keyPrefix,
    get ended() {
      return !given.isOpen
    },
    run: (how, text, keys, args) =>
      way.send(full(keys[0] ?? ''), script(how, text, keys, args)) as Promise<Reply>,
    async runAndWait(how, text, keys, args, replicas, timeout) {
      const wait = ['WAIT', String(replicas), String(timeout)]
      const [ran, waited] = await way.both(full(keys[0] ?? ''), script(how, text, keys, args), wait)
      return [ran as Reply, Number(waited)]
    },
    command: (...args) => way.send(undefined, args) as Promise<Reply>,
    async *scan(pattern) {
      for await (const send of way.masters()) {
        let cursor = '0'
        do {
          const page = await send(['SCAN', cursor, 'MATCH', pattern, 'COUNT', '500'])
          const [next, keys] = page as [string, string[]]
          cursor = String(next)
          yield keys
        } while (cursor !== '0')
      }
    },
    watch(down, up) {
      const moved = () => {
        down()
        up()
      }
      const events: readonly (readonly [string, () => void])[] = [
        ['reconnecting', down],
        ['end', down],
        ['ready', up],
        ['topology-change', moved],
        ['node-reconnecting', down],
        ['node-ready', up],
      ]
      for (const [event, listener] of events) given.on(event, listener)
      const unwatch = way.watch?.(down, up)
      return () => {
        unwatch?.()
        for (const [event, listener] of events) given.off(event, listener)
      }
    },
    duplicate() {
      const own = quiet(given.duplicate())
      // From now on it is open, and keeps commands until it is connected; what fails shows in them.
      own.connect().catch(() => undefined)
      return fromNodeRedis(own, clock)
    },
    listen: (channel, ear, setApart) => {
      if (!setApart) return way.listen(channel, ear)
      const exact = !('use' in given) && !way.cluster
      return { exact, close: attach(given as Single, channel, ear) }
    },
    close: () => destroy(given),
  }
}

function single(client: Single): Way {
  const send = (args: Args) => client.sendCommand(args, plain)
  return {
    cluster: false,
    keyPrefix: client.options?.keyPrefix ?? '',
    send: (_, args) => send(args),
    both: (_, first, second) => Promise.all([send(first), send(second)]),
    async *masters() {
      yield send
    },
    listen: (channel, ear) => listenOnACopy(client, channel, ear, true),
  }
}

function sentinel(client: Sentinel): Way {
  const masters = new Nodes()
  const send = (args: Args): Promise<unknown> =>
    client._execute?.(false, (master) => masters.heed(master).sendCommand(args, plain)) ??
    client.sendCommand(false, args, plain)
  return {
    cluster: false,
    keyPrefix: '',
    watch: (down, up) => masters.watch(down, up),
    send: (_, args) => send(args),
    both: (_, first, second) =>
      client._execute?.(false, (master) => {
        const one = masters.heed(master)
        return Promise.all([one.sendCommand(first, plain), one.sendCommand(second, plain)])
      }) ??
      client.use((one) =>
        Promise.all([one.sendCommand(false, first, plain), one.sendCommand(false, second, plain)]),
      ),
    async *masters() {
      yield send
    },
    // It subscribes again by itself and does not say when: pushes are heard, but none may be trusted with a deadline.
    listen: (channel, ear) => listenOnACopy(client as unknown as Single, channel, ear, false),
  }
}

function clustered(client: Clustered, clock: Clock): Way {
  return {
    cluster: true,
    keyPrefix: client._options?.keyPrefix ?? '',
    send: (key, args) => client.sendCommand(key, false, args, plain),
    async both(key, first, second) {
      const node = await client.getNodeClientForKey?.(key)
      if (node === undefined) {
        throw new Error(
          'replicas in a Cluster need a node-redis with getNodeClientForKey; update it, or use ioredis',
        )
      }
      return Promise.all([node.sendCommand(first, plain), node.sendCommand(second, plain)])
    },
    async *masters() {
      for (const master of client.masters) {
        const node = await client.nodeClient(master)
        yield (args: Args) => node.sendCommand(args, plain)
      }
    },
    listen: (channel, ear) => listenOnANode(client, clock, channel, ear),
  }
}
