/** The plain lock with a queue: a release hands the key to the longest-waiting client and sends it a message. */
import { deadline } from 'holdfast/driver'
import type { Redis } from 'ioredis'
import { type At, control, type Parts, pause } from './plain-lock.js'

export interface Mistakes {
  /** The lease counts from the arrival of the message. */
  readonly clockFromPush?: boolean
  /** A waiter never polls. */
  readonly neverLooks?: boolean
}

const ignore = () => undefined

const release = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[1])
local next = redis.call('LPOP', KEYS[2])
if not next then return 1 end
redis.call('SET', KEYS[1], next, 'PX', ARGV[2])
redis.call('PUBLISH', 'plain:pushes', next)
return 1`

interface Subscriber {
  readonly waiting: Map<string, () => void>
}

const subscribers = new Map<Redis, Subscriber>()

function getSubscriber(redis: Redis): Subscriber {
  const known = subscribers.get(redis)
  if (known !== undefined) return known
  const subscriber = { waiting: new Map<string, () => void>() }
  const listener = redis.duplicate({ autoResubscribe: true })
  listener.on('error', () => undefined)
  listener.on('message', (_, attempt) => subscriber.waiting.get(attempt)?.())
  void listener.subscribe('plain:pushes').catch(() => undefined)
  redis.once('end', () => listener.disconnect())
  subscribers.set(redis, subscriber)
  return subscriber
}

export function queuedLock({ clockFromPush = false, neverLooks = false }: Mistakes): Partial<Parts> {
  const attempts = new Set<string>()
  const leave = (at: At) => {
    if (attempts.delete(at.claim.attempt))
      void at.redis.lrem(`${at.key}:line`, 0, at.claim.attempt).catch(ignore)
  }
  return {
    take: async (at) => {
      const token = await control.take(at)
      if (token !== undefined) leave(at)
      return token
    },
    release: ({ redis, key, claim }) => redis.eval(release, 2, key, `${key}:line`, claim.attempt, claim.ttl),
    validUntil: (sent, answered, ttl) => deadline(clockFromPush ? answered : sent, ttl),
    park: async (at, wait) => {
      const { attempt } = at.claim
      const { waiting } = getSubscriber(at.redis)
      const notified = new Promise<void>((resolve) => waiting.set(attempt, resolve))
      if (!attempts.has(attempt)) await waitForTurn(at, attempts)
      const gone = new Promise<void>((resolve) => wait.signal.addEventListener('abort', () => resolve()))
      await Promise.race(neverLooks ? [notified, gone] : [notified, gone, pause(50)])
      waiting.delete(attempt)
      if (wait.ended) leave(at)
    },
  }
}

async function waitForTurn({ redis, key, claim }: At, attempts: Set<string>): Promise<void> {
  attempts.add(claim.attempt)
  await redis.rpush(`${key}:line`, claim.attempt)
}
