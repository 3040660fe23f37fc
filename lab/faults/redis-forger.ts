/** Forged messages on Redis: the forger may only use `PSUBSCRIBE`, `PUBLISH` and reads. */
import { Redis } from 'ioredis'
import type { RedisServer } from '../../test/support/servers/redis.js'
import { chance } from './chance.js'
import { forge, Listener } from './forger.js'
import { subjectNames } from './redis-servers.js'
import { repeatEvery } from './sequences.js'
import type { Fault, Undo } from './store.js'

const ignore = () => undefined

export function forgedMessages(servers: readonly RedisServer[]): Fault {
  return {
    kind: 'forged messages',
    subjects: subjectNames(servers).map((subject) => `forger of ${subject}`),
    weight: 3,
    lasts: [0.5, 4],
    gentle: true,
    begin: ({ n, amount }) => {
      const server = servers[n]
      return server === undefined ? undefined : forgeAt(server, amount)
    },
  }
}

function forgeAt({ host, port }: RedisServer, amount: number): Undo {
  const random = chance(Math.floor(amount * 2 ** 32))
  const listener = new Listener()
  const open = () => new Redis({ host, port, retryStrategy: () => 50, maxRetriesPerRequest: 0 })
  const [sender, subscriber] = [open(), open()]
  for (const client of [sender, subscriber]) client.on('error', ignore)
  subscriber.on('pmessage', (_, channel, text) => listener.onChannel(channel, text))
  subscriber.on('ready', () => subscriber.psubscribe('*').catch(ignore))
  const undo = repeatEvery(4, async () => {
    if (random.next() < 0.05) await look(sender, listener).catch(ignore)
    const forged = forge(listener, random)
    if (forged === undefined) return
    listener.sends(forged.text)
    await sender.publish(forged.channel, forged.text).catch(ignore)
  })
  return async () => {
    await undo?.()
    sender.disconnect()
    subscriber.disconnect()
  }
}

/** The hashes contain the current holding and waiting attempts, and the channels their processes subscribe to. */
async function look(client: Redis, listener: Listener): Promise<void> {
  const keys = await client.keys('*')
  for (const key of keys.slice(0, 20)) {
    const fields = await client.hgetall(key).catch(() => ({}))
    for (const [field, value] of Object.entries(fields)) listener.onMessage(`${field} ${value}`)
  }
}
