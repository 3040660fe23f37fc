/** How a node-redis client listens on the driver's channel. */
import type { Clock } from '../../core/clock.js'
import type { Ear, Listening, NodeRedis } from './client.js'
import type { Clustered, Single } from './node-redis.js'
import { isRefusal } from './trouble.js'

/** How long to wait before another node is tried for the subscription, in ms. */
const nextNodeAfter = 200

/** Errors of our own connections show as rejected commands and missing messages; an unheard one would end the process. */
export function quiet<T extends NodeRedis>(client: T): T {
  client.on('error', () => undefined)
  return client
}

/** Subscribes at the first `ready`; later the client does so by itself before it says ready. Returns what undoes it. */
export function attach(client: Single, channel: string, ear: Ear): () => void {
  let subscribed = false
  const message = (text: string) => ear.message(text)
  const ready = () => {
    if (subscribed) return ear.up()
    client.subscribe(channel, message).then(
      () => {
        subscribed = true
        ear.up()
      },
      (error: Error) => {
        if (isRefusal(error)) ear.refused(error)
      },
    )
  }
  const down = () => ear.down()
  const moved = () => {
    ear.down()
    if (subscribed) ear.up()
  }
  const events: readonly (readonly [string, () => void])[] = [
    ['ready', ready],
    ['reconnecting', down],
    ['end', down],
    ['topology-change', moved],
  ]
  for (const [event, listener] of events) client.on(event, listener)
  if (client.isReady) ready()
  return () => {
    for (const [event, listener] of events) client.off(event, listener)
    if (subscribed && client.isReady) client.unsubscribe(channel, message).catch(() => undefined)
  }
}

export function listenOnACopy(client: Single, channel: string, ear: Ear, exact: boolean): Listening {
  const own = quiet(client.duplicate())
  const detach = attach(own, channel, ear)
  own.connect().catch(() => undefined)
  return {
    exact,
    close() {
      detach()
      destroy(own)
    },
  }
}

/** A cluster client hides when its subscription moves; a connection of our own to one node does not. */
export function listenOnANode(cluster: Clustered, clock: Clock, channel: string, ear: Ear): Listening {
  let closed = false
  let stop = () => {}
  const later = () => {
    stop()
    ear.down()
    if (!closed) stop = clock.at(clock.now() + nextNodeAfter, () => void open().catch(later), { ref: false })
  }
  const open = async () => {
    const master = cluster.masters[Math.floor(Math.random() * cluster.masters.length)]
    if (master === undefined) return later()
    const node = await cluster.nodeClient(master)
    if (closed) return
    const own = quiet(node.duplicate({ socket: { ...node.options?.socket, reconnectStrategy: false } }))
    const detach = attach(own, channel, ear)
    own.on('error', later)
    stop = () => {
      own.off('error', later)
      detach()
      destroy(own)
    }
    await own.connect()
  }
  void open().catch(later)
  return {
    exact: true,
    close() {
      closed = true
      stop()
    },
  }
}

export function destroy(client: NodeRedis): void {
  try {
    const ended = client.destroy()
    if (ended instanceof Promise) ended.catch(() => undefined)
  } catch {
    // It was never connected.
  }
}
