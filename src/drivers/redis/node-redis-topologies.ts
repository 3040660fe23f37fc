/** The differences between the three kinds of node-redis clients: client, cluster, sentinel. */
import type { Clock } from '../../core/clock.js'
import type { NodeRedis, Subscription, SubscriptionHandler } from './client.js'
import { on } from './events.js'
import { Nodes } from './node-redis-nodes.js'
import { attach, type Choice, listenOnCopy, listenOnNode } from './node-redis-subscription.js'
import { following, isRedirection, keySlot, withHost } from './redirections.js'
import type { AskNode } from './scan.js'

type Options = { readonly keyPrefix?: string; readonly socket?: object; readonly legacyMode?: boolean }
type Send = { readonly typeMapping: object; readonly timeout: undefined; readonly asap: false }
export type Args = readonly string[]
type Command = readonly [string, ...string[]]

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
  readonly slots: readonly (object | undefined)[]
  sendCommand(key: string | undefined, readonly: boolean, args: Args, options?: Send): Promise<unknown>
  nodeClient(node: object): Single | Promise<Single>
}

export interface Sentinel extends Omit<Single, 'sendCommand'> {
  sendCommand(readonly: boolean, args: Args, options?: Send): Promise<unknown>
  use<T>(fn: (client: { sendCommand: Sentinel['sendCommand'] }) => Promise<T>): Promise<T>
  /** Every command goes through this, with the client of the master. Undocumented, so it may be missing. */
  _execute?<T>(readonly: boolean, fn: (master: Single) => Promise<T>): Promise<T>
}

/**
 * Replies are strings and lists, whatever type mapping and protocol the client has; 37 is the type byte of a RESP 3 map. No `timeout`: the client's ends only commands not written yet, and
 * costs an AbortSignal each; the driver has its own. No `asap`: it sends a WAIT before the script it is to wait for.
 */
const plain: Send = { typeMapping: { 37: Array }, timeout: undefined, asap: false }

/** The operations in which the three kinds differ. */
export interface Topology {
  readonly cluster: boolean
  readonly keyPrefix: string
  send(key: string | undefined, args: Args): Promise<unknown>
  /** Sends both over one connection, one after the other. */
  both(key: string, first: Args, second: Args): Promise<readonly unknown[]>
  masters(): AsyncIterable<AskNode>
  listen(channel: string, handler: SubscriptionHandler): Subscription
  /** Reports the connection changes that the client itself does not. */
  watch?(down: () => void, up: () => void): () => void
}

/**
 * Sends all commands over one connection; replies and errors come in the same order. Fails if the client reconnects in between:
 * the rest would go over the next connection, where WAIT knows of no write.
 */
async function runAll(client: Single, commands: readonly Args[]): Promise<readonly unknown[]> {
  let broken = false
  const stop = on(client, 'reconnecting', () => {
    broken = true
  })
  try {
    const result = await Promise.allSettled(
      commands.map(async (command) => client.sendCommand(command, plain)),
    )
    if (broken) throw new Error('the connection broke')
    return result.map((one) => (one.status === 'fulfilled' ? one.value : one.reason))
  } finally {
    stop()
  }
}

async function runTogether(client: Single, commands: readonly Args[]): Promise<readonly unknown[]> {
  const answers = await runAll(client, commands)
  const failed = answers.find((answer) => answer instanceof Error)
  if (failed) throw failed
  return answers
}

export function single(client: Single): Topology {
  // Of version 4. A Cluster client that has it cannot even connect.
  if (client.options?.legacyMode) {
    throw new TypeError(
      'the client has legacyMode, in which its commands return nothing; give the locks one without it, for example client.duplicate({ legacyMode: false })',
    )
  }
  const send = (args: Args) => client.sendCommand(args, plain)
  return {
    cluster: false,
    keyPrefix: client.options?.keyPrefix ?? '',
    send: (_, args) => send(args),
    both: (_, first, second) => runTogether(client, [first, second]),
    async *masters() {
      yield (...args) => send(args)
    },
    listen: (channel, handler) => listenOnCopy(client, channel, handler),
  }
}

export function sentinel(client: Sentinel, clock: Clock): Topology {
  const masters = new Nodes()
  // The client of a replaced master is closed.
  const nodes: Choice | undefined = client._execute && {
    all: async () => [await client._execute?.(false, async (master) => master)].filter(isThere),
    connectTo: async (node) => node as Single,
    serves: (node) => (node as Single).isOpen,
  }
  const send = (args: Args): Promise<unknown> =>
    client._execute?.(false, (master) => masters.watchOutages(master).sendCommand(args, plain)) ??
    client.sendCommand(false, args, plain)
  return {
    cluster: false,
    keyPrefix: '',
    watch: (down, up) => masters.watch(down, up),
    send: (_, args) => send(args),
    both: (_, first, second) =>
      client._execute?.(false, (master) => runTogether(masters.watchOutages(master), [first, second])) ??
      client.use((one) =>
        Promise.all([one.sendCommand(false, first, plain), one.sendCommand(false, second, plain)]),
      ),
    async *masters() {
      yield (...args) => send(args)
    },
    // The client resubscribes by itself without reporting when.
    listen: (channel, handler) =>
      nodes === undefined
        ? { close: attach(client as unknown as Single, channel, handler) }
        : listenOnNode(clock, nodes, channel, handler),
  }
}

/** Of version 6, which wraps the error with which it gave up following redirections. */
const lastOf = (error: unknown) =>
  error instanceof Error && error.message === 'Too many Cluster redirections' ? (error.cause ?? error) : error

const isThere = <T>(one: T | undefined): one is T => one !== undefined

export function clustered(client: Clustered, clock: Clock): Topology {
  const nodes: Choice = {
    all: async () => client.masters,
    connectTo: async (node) => client.nodeClient(node),
    // While the client reloads the node list it may know no node.
    serves: (node) => client.masters.length === 0 || client.masters.includes(node),
  }
  const lacks = (key: string | undefined): key is string =>
    key !== undefined && client.slots[keySlot(key)] === undefined
  // Without any node, as before it is connected, the client looks for a random one in an endless loop, and the process hangs.
  const sendTo = async (key: string | undefined, args: Args): Promise<unknown> => {
    if (client.masters.length === 0) throw new Error('the Cluster client has not found a node yet')
    return client.sendCommand(key, false, args, plain)
  }
  const send = async (key: string | undefined, args: Args): Promise<unknown> => {
    try {
      return await sendTo(key, args)
    } catch (thrown) {
      const error = lastOf(thrown)
      // The client sent nothing: it knows no node for the slot, because the node that listed them knew none, as just after a fail-over.
      // It reloads the list only when a node redirects it, which never happens for such a slot. Or it has given up on redirections.
      const unsent = error instanceof TypeError && lacks(key)
      if (key === undefined || !(unsent || isRedirection(error))) throw error
      const [answer] = await follow(key, [args as Command])
      return answer
    }
  }
  const follow = following(
    {
      masters: () => client.masters,
      at(address, from) {
        const is = withHost(address, (from as { host?: string }).host)
        return client.masters.find((master) => (master as { address?: string }).address === is)
      },
      send: async (master, commands) => runAll(await client.nodeClient(master), commands),
      // The client follows the redirection and reloads the node list. The request goes to a random node if it knows none for the slot.
      learn: (key) => sendTo(lacks(key) ? undefined : key, ['EVAL', 'return 0', '1', key]),
    },
    clock,
  )
  return {
    cluster: true,
    keyPrefix: client._options?.keyPrefix ?? '',
    send,
    both: (key, first, second) => follow(key, [first as Command, second as Command]),
    async *masters() {
      for (const master of client.masters) {
        // Replaced meanwhile: a connection made to it now would never be closed.
        if (!client.masters.includes(master)) continue
        const node = await client.nodeClient(master)
        yield (...args) => node.sendCommand(args, plain)
      }
    },
    listen: (channel, handler) => listenOnNode(clock, nodes, channel, handler),
  }
}
