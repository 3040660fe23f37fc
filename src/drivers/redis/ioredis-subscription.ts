/** Subscribes to the driver's channel over ioredis. */
import type { Clock } from '../../core/clock.js'
import type { Subscription, SubscriptionHandler } from './client.js'
import { onAll } from './events.js'
import { isRefusal } from './failure.js'
import type { Full } from './ioredis.js'
import { another, type OnNode, stay } from './node-subscription.js'

/** Errors of our own connections show as rejected commands and missing messages; without a listener they would be printed. */
export function quiet(client: Full): Full {
  client.on('error', () => undefined)
  return client
}

/**
 * Subscribes at every `ready`. Returns a function that undoes this. Uses the client's own method, not `call('SUBSCRIBE')`: ioredis 5
 * notices the subscription only by the lower-case command, and otherwise takes the first message for a reply.
 */
export function attach(client: Full, channel: string, handler: SubscriptionHandler): () => void {
  let over = false
  const subscribe = async () => client.subscribe(channel)
  const unsubscribe = async () => client.unsubscribe(channel)
  const ready = () => {
    subscribe().then(
      () => over || handler.up(),
      (error: Error) => over || (isRefusal(error) && handler.refused(error)),
    )
  }
  const stop = onAll(client, {
    message: (from, text) => {
      if (from === channel) handler.message(String(text))
    },
    ready,
    close: () => handler.down(),
  })
  if (client.status === 'ready') ready()
  return () => {
    over = true
    stop()
    if (client.status === 'ready') unsubscribe().catch(() => undefined)
  }
}

/** Listens over a separate connection to the same server. */
export function listenOnCopy(client: Full, channel: string, handler: SubscriptionHandler): Subscription {
  const own = quiet(client.duplicate({ ...isOurs, maxRetriesPerRequest: null }))
  const detach = attach(own, channel, handler)
  return {
    close() {
      detach()
      own.disconnect()
    },
    reconnect: () => reconnect(own, 'ready'),
  }
}

/** Ends the connection, if it is in that state, as if the server had closed it. A client that would not come back by itself is left as it is. */
export function reconnect(client: Full, status: 'ready' | 'connect'): void {
  if (typeof client.options?.retryStrategy === 'function' && client.status === status) client.disconnect(true)
}

/** Options that our own connections need, whatever the options of the client. */
const isOurs = {
  lazyConnect: false,
  autoResubscribe: false,
  enableOfflineQueue: true,
  maxLoadingRetryTime: 250,
}

/** Listens over our own connection to one node: a Cluster client hides when its subscription moves. */
export function listenOnNode(
  cluster: Full,
  clock: Clock,
  channel: string,
  handler: SubscriptionHandler,
): Subscription {
  let left: Full | undefined
  const masters = () => cluster.nodes?.('master') ?? []
  const open = async (ended: () => void): Promise<OnNode | undefined> => {
    const node = another(masters(), left)
    left = node
    if (node === undefined) return undefined
    const own = quiet(node.duplicate({ ...isOurs, retryStrategy: null }))
    const detach = attach(own, channel, handler)
    own.on('end', ended)
    return {
      ping: async () => own.ping(),
      serves: () => masters().includes(node),
      close() {
        own.off('end', ended)
        detach()
        own.disconnect()
      },
    }
  }
  return { close: stay(clock, open, () => handler.down()) }
}
