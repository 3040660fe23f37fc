/** Subscribes to the driver's channel over node-redis. */
import type { Clock } from '../../core/clock.js'
import type { NodeRedis, Subscription, SubscriptionHandler } from './client.js'
import { onAll } from './events.js'
import { isRefusal } from './failure.js'
import type { Single } from './node-redis-topologies.js'
import { another, type OnNode, stay } from './node-subscription.js'

/** Errors of our own connections show as rejected commands and missing messages; without a listener, one would end the process. */
export function quiet<T extends NodeRedis>(client: T): T {
  client.on('error', () => undefined)
  return client
}

/** Subscribes at the first `ready`; later the client resubscribes before it emits `ready`. Returns a function that undoes this. */
export function attach(client: Single, channel: string, handler: SubscriptionHandler): () => void {
  let [subscribed, over] = [false, false]
  const subscribe = async () => client.subscribe(channel, message)
  const unsubscribe = async () => client.unsubscribe(channel, message)
  const message = (text: string) => handler.message(text)
  const ready = () => {
    if (subscribed) return handler.up()
    subscribe().then(
      () => {
        subscribed = true
        if (over) unsubscribe().catch(() => undefined)
        else handler.up()
      },
      (error: Error) => over || (isRefusal(error) && handler.refused(error)),
    )
  }
  const down = () => handler.down()
  const moved = () => {
    handler.down()
    if (subscribed) handler.up()
  }
  const stop = onAll(client, { ready, reconnecting: down, end: down, 'topology-change': moved })
  if (client.isReady) ready()
  return () => {
    over = true
    stop()
    if (subscribed && client.isReady) unsubscribe().catch(() => undefined)
  }
}

export function listenOnCopy(client: Single, channel: string, handler: SubscriptionHandler): Subscription {
  const own = quiet(client.duplicate())
  const detach = attach(own, channel, handler)
  own.connect().catch(() => undefined)
  return {
    close() {
      detach()
      destroy(own)
    },
  }
}

/**
 * Listens over our own connection to one of the nodes: a Cluster client hides when its subscription moves, and a Sentinel client
 * hides when it is made anew.
 */
export function listenOnNode(
  clock: Clock,
  nodes: Choice,
  channel: string,
  handler: SubscriptionHandler,
): Subscription {
  let left: object | undefined
  const open = async (ended: () => void): Promise<OnNode | undefined> => {
    const chosen = another(await nodes.all(), left)
    left = chosen
    if (chosen === undefined) return undefined
    const node = await nodes.connectTo(chosen)
    const own = quiet(
      node.duplicate({ ...isOurs, socket: { ...node.options?.socket, reconnectStrategy: false } }),
    )
    const detach = attach(own, channel, handler)
    const stop = onAll(own, { error: ended, end: ended })
    own.connect().catch(ended)
    return {
      ping: async () => own.sendCommand(['PING']),
      serves: () => nodes.serves(chosen),
      close() {
        stop()
        detach()
        destroy(own)
      },
    }
  }
  return { close: stay(clock, open, () => handler.down()) }
}

/** Options that our own connections need, whatever the options of the client. */
const isOurs = { disableOfflineQueue: false }

/** The nodes to choose from for the subscription. */
export interface Choice {
  all(): Promise<readonly object[]>
  connectTo(node: object): Promise<Single>
  serves(node: object): boolean
}

/** Closes the client at once. Version 4 calls that `disconnect`. */
export function destroy(client: NodeRedis): void {
  try {
    const ended = client.destroy === undefined ? client.disconnect?.() : client.destroy()
    if (ended instanceof Promise) ended.catch(() => undefined)
  } catch {
    // The client was never connected.
  }
}
