/** A {@link Connection} over ioredis: `Redis` (standalone and Sentinel) or `Cluster`. */
import type { Clock } from '../../core/clock.js'
import type { Connection, Ear, Ioredis, Listening, Reply } from './client.js'
import { isRefusal } from './trouble.js'

/** What only some of them have, or what is not in the public type. */
interface Full extends Ioredis {
  readonly isCluster?: boolean
  readonly options?: { readonly keyPrefix?: string }
  nodes?(role: 'master'): Full[]
  pipeline(): Pipeline
  evalsha(sha: string, numberOfKeys: number, keys: readonly string[], args: readonly string[]): Promise<Reply>
  eval(text: string, numberOfKeys: number, keys: readonly string[], args: readonly string[]): Promise<Reply>
  duplicate(override?: object): Full
}

interface Pipeline {
  call(command: string, ...args: string[]): unknown
  exec(): Promise<[error: Error | null, reply: unknown][] | null>
}

/** How long to wait before another node is tried for the subscription, in ms. */
const nextNodeAfter = 200

export function fromIoredis(given: Ioredis, clock: Clock): Connection {
  const client = given as Full
  const cluster = client.isCluster === true
  const events = cluster
    ? { down: ['-node', 'close'], up: ['+node', 'ready'] }
    : { down: ['close'], up: ['ready'] }

  return {
    cluster,
    keyPrefix: client.options?.keyPrefix ?? '',
    get ended() {
      return client.status === 'end'
    },
    // It flattens its arguments in any case.
    run: (how, script, keys, args) =>
      how === 'EVAL'
        ? client.eval(script, keys.length, keys, args)
        : client.evalsha(script, keys.length, keys, args),

    async runAndWait(how, script, keys, args, replicas, timeout) {
      const pipeline = client.pipeline()
      pipeline.call(how, script, String(keys.length), ...keys, ...args)
      pipeline.call('WAIT', String(replicas), String(timeout))
      const [ran, waited] = (await pipeline.exec()) ?? []
      const failed = ran?.[0] ?? waited?.[0]
      if (failed) throw failed
      return [ran?.[1] as Reply, Number(waited?.[1])]
    },

    command: (name, ...args) => client.call(name, ...args) as Promise<Reply>,

    async *scan(pattern) {
      for (const node of client.nodes?.('master') ?? [client]) {
        let cursor = '0'
        do {
          const page = await node.call('SCAN', cursor, 'MATCH', pattern, 'COUNT', '500')
          const [next, keys] = page as [string, string[]]
          cursor = String(next)
          yield keys
        } while (cursor !== '0')
      }
    },

    watch(down, up) {
      for (const event of events.down) client.on(event, down)
      for (const event of events.up) client.on(event, up)
      return () => {
        for (const event of events.down) client.off(event, down)
        for (const event of events.up) client.off(event, up)
      }
    },

    duplicate: () => fromIoredis(quiet(cluster ? client.duplicate([]) : client.duplicate()), clock),

    listen(channel, ear, setApart) {
      if (setApart) return { exact: !cluster, close: attach(client, channel, ear) }
      return cluster ? listenOnANode(client, clock, channel, ear) : listenOnACopy(client, channel, ear)
    },

    close: () => client.disconnect(),
  }
}

/** Errors of our own connections show as rejected commands and missing messages; unheard ones would be printed. */
function quiet(client: Full): Full {
  client.on('error', () => undefined)
  return client
}

/** Subscribes at every `ready`. Returns what undoes it. */
function attach(client: Full, channel: string, ear: Ear): () => void {
  const message = (from: unknown, text: unknown) => {
    if (from === channel) ear.message(String(text))
  }
  const ready = () => {
    client.call('SUBSCRIBE', channel).then(
      () => ear.up(),
      (error: Error) => {
        if (isRefusal(error)) ear.refused(error)
      },
    )
  }
  const down = () => ear.down()
  client.on('message', message)
  client.on('ready', ready)
  client.on('close', down)
  if (client.status === 'ready') ready()
  return () => {
    client.off('message', message)
    client.off('ready', ready)
    client.off('close', down)
    if (client.status === 'ready') client.call('UNSUBSCRIBE', channel).catch(() => undefined)
  }
}

function listenOnACopy(client: Full, channel: string, ear: Ear): Listening {
  const own = quiet(
    client.duplicate({ lazyConnect: false, autoResubscribe: false, maxRetriesPerRequest: null }),
  )
  const detach = attach(own, channel, ear)
  return {
    exact: true,
    close() {
      detach()
      own.disconnect()
    },
  }
}

/** A Cluster client hides when its subscription moves; a connection of our own to one node does not. */
function listenOnANode(cluster: Full, clock: Clock, channel: string, ear: Ear): Listening {
  let stop = () => {}
  const later = () => {
    stop = clock.at(clock.now() + nextNodeAfter, open, { ref: false })
  }
  const open = () => {
    const nodes = cluster.nodes?.('master') ?? []
    const node = nodes[Math.floor(Math.random() * nodes.length)]
    if (node === undefined) return later()
    const own = quiet(node.duplicate({ lazyConnect: false, autoResubscribe: false, retryStrategy: null }))
    const detach = attach(own, channel, ear)
    const end = () => {
      detach()
      ear.down()
      later()
    }
    own.on('end', end)
    stop = () => {
      own.off('end', end)
      detach()
      own.disconnect()
    }
  }
  open()
  return { exact: true, close: () => stop() }
}
