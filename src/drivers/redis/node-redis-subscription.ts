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
export function attach(client: Single, channel: string, ear: SubscriptionHandler): () => void {
  let [subscribed, over] = [false, false]
  const subscribe = async () => client.subscribe(channel, message)
  const unsubscribe = async () => client.unsubscribe(channel, message)
  const message = (text: string) => ear.message(text)
  const ready = () => {
    if (subscribed) return ear.up()
    subscribe().then(
      () => {
        subscribed = true
        if (over) unsubscribe().catch(() => undefined)
        else ear.up()
      },
      (error: Error) => over || (isRefusal(error) && ear.refused(error)),
    )
  }
  const down = () => ear.down()
  const moved = () => {
    ear.down()
    if (subscribed) ear.up()
  }
  const stop = onAll(client, { ready, reconnecting: down, end: down, 'topology-change': moved })
  if (client.isReady) ready()
  return () => {
    over = true
    stop()
    if (subscribed && client.isReady) unsubscribe().catch(() => undefined)
  }
}

export function listenOnACopy(client: Single, channel: string, ear: SubscriptionHandler): Subscription {
  const own = quiet(client.duplicate())
  const detach = attach(own, channel, ear)
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
export function listenOnANode(
  clock: Clock,
  nodes: Choice,
  channel: string,
  ear: SubscriptionHandler,
): Subscription {
  let left: object | undefined
  const open = async (ended: () => void): Promise<OnNode | undefined> => {
    const chosen = another(await nodes.all(), left)
    left = chosen
    if (chosen === undefined) return undefined
    const node = await nodes.clientOf(chosen)
    const own = quiet(
      node.duplicate({ ...forOurs, socket: { ...node.options?.socket, reconnectStrategy: false } }),
    )
    const detach = attach(own, channel, ear)
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
  return { close: stay(clock, open, () => ear.down()) }
}

/** Options that our own connections need, whatever the options of the client. */
const forOurs = { disableOfflineQueue: false }

/** The nodes to choose from for the subscription. */
export interface Choice {
  all(): Promise<readonly object[]>
  clientOf(node: object): Promise<Single>
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
