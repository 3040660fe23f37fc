/** The plain lock with a line: a release hands the key to who waits longest and sends it a message. */
import { deadline } from 'holdfast/driver'
import type { Redis } from 'ioredis'
import { type At, control, type Parts, pause } from './plain-lock.js'

export interface Mistakes {
  /** The lease counts from when the message was heard. */
  readonly clockFromPush?: boolean
  /** A waiter never asks again by itself. */
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

interface Ear {
  readonly waiting: Map<string, () => void>
}

const ears = new Map<Redis, Ear>()

function earOf(redis: Redis): Ear {
  const known = ears.get(redis)
  if (known !== undefined) return known
  const ear = { waiting: new Map<string, () => void>() }
  const listener = redis.duplicate({ autoResubscribe: true })
  listener.on('error', () => undefined)
  listener.on('message', (_, attempt) => ear.waiting.get(attempt)?.())
  void listener.subscribe('plain:pushes').catch(() => undefined)
  redis.once('end', () => listener.disconnect())
  ears.set(redis, ear)
  return ear
}

export function queued({ clockFromPush = false, neverLooks = false }: Mistakes): Partial<Parts> {
  const lined = new Set<string>()
  const leave = (at: At) => {
    if (lined.delete(at.claim.attempt))
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
      const { waiting } = earOf(at.redis)
      const told = new Promise<void>((resolve) => waiting.set(attempt, resolve))
      if (!lined.has(attempt)) await stand(at, lined)
      const gone = new Promise<void>((resolve) => wait.signal.addEventListener('abort', () => resolve()))
      await Promise.race(neverLooks ? [told, gone] : [told, gone, pause(50)])
      waiting.delete(attempt)
      if (wait.ended) leave(at)
    },
  }
}

async function stand({ redis, key, claim }: At, lined: Set<string>): Promise<void> {
  lined.add(claim.attempt)
  await redis.rpush(`${key}:line`, claim.attempt)
}
