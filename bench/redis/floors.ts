/**
 * The floors of a lock in Redis.
 *
 * `bare`: SET NX PX with a random value and compare-and-delete: two commands, no token, no renewal, no waiting.
 * `barePush`: a queue in Redis, and a release that pops its head and publishes to it: no deadline, no handling of dead waiters.
 */
import { createHash, randomUUID } from 'node:crypto'
import { ioredisAt, nodeRedisAt } from './clients.js'
import { type ClientKind, type Contender, type Recipe, ttl } from './contender.js'

interface Bare {
  set(key: string, value: string): Promise<boolean>
  run(script: string, keys: readonly string[], args: readonly string[]): Promise<unknown>
  close(): Promise<void>
  /** Closes at once, even with commands in flight. */
  drop(): void
}

/** KEYS: lock. ARGV: value. Result: 1 if it was ours. */
const compareAndDelete = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`

/** KEYS: lock, queue. ARGV: id, channel. Result: 1 if acquired, 0 if queued. */
const takeOrStand = `
if redis.call('SET', KEYS[1], ARGV[1], 'NX') then return 1 end
redis.call('RPUSH', KEYS[2], ARGV[1] .. ' ' .. ARGV[2])
return 0`

/** KEYS: lock, queue. Result: 1 if there was a waiter. */
const popAndPublish = `
local next = redis.call('LPOP', KEYS[2])
if not next then
  redis.call('DEL', KEYS[1])
  return 0
end
local id, channel = string.match(next, '(%S+) (%S+)')
redis.call('SET', KEYS[1], id)
redis.call('PUBLISH', channel, id)
return 1`

const shas = new Map(
  [compareAndDelete, takeOrStand, popAndPublish].map((text) => [
    text,
    createHash('sha1').update(text).digest('hex'),
  ]),
)

export function bare(client: ClientKind): Recipe {
  return {
    name: `bare SET NX PX, ${client}`,
    settings: 'default',
    client,
    async make([port = 0]) {
      const server = await connect(client, port)
      return {
        gaveUp: 0,
        async take(key) {
          const id = randomUUID()
          if (!(await server.set(key, id))) throw new Error(`${key} is taken: this floor cannot wait`)
          return { token: 0, release: () => server.run(compareAndDelete, [key], [id]) }
        },
        close: () => server.close(),
      }
    },
  }
}

export const barePush: Recipe = {
  name: 'bare FIFO push',
  settings: 'default',
  client: 'ioredis',
  async make([port = 0]) {
    const server = await connect('ioredis', port)
    const subscriber = ioredisAt(port)
    const channel = `bench:${randomUUID()}`
    const waiting = new Map<string, () => void>()
    subscriber.on('message', (_, id) => {
      waiting.get(id)?.()
      waiting.delete(id)
    })
    await subscriber.subscribe(channel)
    return {
      gaveUp: 0,
      async take(key) {
        const keys = [key, `${key}:queue`]
        const id = randomUUID()
        // The message may overtake the reply.
        const granted = new Promise<void>((resolve) => void waiting.set(id, resolve))
        if ((await server.run(takeOrStand, keys, [id, channel])) === 1) waiting.delete(id)
        else await granted
        return { token: 0, release: () => server.run(popAndPublish, keys, []) }
      },
      async close() {
        subscriber.disconnect()
        await server.close()
      },
    } satisfies Contender
  },
}

/** Both commands to all servers at once, each done on a majority of replies: no ballot, no deadline, no retry. */
export const bareMajority: Recipe = {
  name: 'bare majority write',
  settings: 'default',
  client: 'ioredis',
  async make(ports) {
    const servers = await Promise.all(ports.map((port) => connect('ioredis', port)))
    const most = Math.floor(servers.length / 2) + 1
    const majority = (ask: (server: Bare) => Promise<boolean>) =>
      new Promise<void>((resolve, reject) => {
        let yes = 0
        for (const server of servers) {
          ask(server).then((did) => {
            if (did && ++yes === most) resolve()
          }, reject)
        }
      })
    return {
      gaveUp: 0,
      async take(key) {
        const id = randomUUID()
        await majority((server) => server.set(key, id))
        return {
          token: 0,
          release: () => majority(async (server) => (await server.run(compareAndDelete, [key], [id])) === 1),
        }
      },
      async close() {
        for (const server of servers) server.drop()
      },
    }
  },
}

async function connect(client: ClientKind, port: number): Promise<Bare> {
  const server = client === 'ioredis' ? bareIoredis(port) : await bareNodeRedis(port)
  await server.load()
  return server
}

function bareIoredis(port: number): Bare & { load(): Promise<void> } {
  const redis = ioredisAt(port)
  return {
    set: async (key, value) => (await redis.set(key, value, 'PX', ttl, 'NX')) === 'OK',
    run: (script, keys, args) => redis.evalsha(shas.get(script) ?? '', keys.length, ...keys, ...args),
    async load() {
      for (const script of shas.keys()) await redis.script('LOAD', script)
    },
    close: async () => void (await redis.quit()),
    drop: () => redis.disconnect(),
  }
}

async function bareNodeRedis(port: number): Promise<Bare & { load(): Promise<void> }> {
  const redis = await nodeRedisAt(port)
  return {
    set: async (key, value) =>
      (await redis.set(key, value, { expiration: { type: 'PX', value: ttl }, condition: 'NX' })) === 'OK',
    run: (script, keys, args) =>
      redis.evalSha(shas.get(script) ?? '', { keys: [...keys], arguments: [...args] }),
    async load() {
      for (const script of shas.keys()) await redis.scriptLoad(script)
    },
    close: async () => void (await redis.close()),
    drop: () => redis.destroy(),
  }
}
