/**
 * A plain lock over Redis as found in many programs: one key with an owner and an expiry, polled. Without a mistake it passes the lab
 * (`control`); each canary is this lock with exactly one mistake, so the lab catches that mistake and nothing else.
 */

import { type Claim, type Driver, deadline, type Env, type Grant, type Wait } from 'holdfast/driver'
import type { Redis } from 'ioredis'

/** What a canary replaces. */
export interface Parts {
  /** One attempt; returns a token if it took the lock. */
  take(at: At): Promise<number | undefined>
  release(at: At): Promise<unknown>
  /** Is it still ours? */
  renew(at: At, ttl: number): Promise<boolean>
  /** The deadline of a hold, from the clock readings before the request and after its reply. */
  validUntil(sent: number, answered: number, ttl: number): number
  /** Waits until it is worth trying again. */
  park(at: At, wait: Wait): Promise<void>
  /** Is anything left under this name? */
  left(redis: Redis, name: string): Promise<boolean>
  readonly modes: Driver['traits']['modes']
  readonly fair: boolean
}

export interface At {
  readonly redis: Redis
  readonly key: string
  readonly claim: Claim
  readonly env: Env
}

const take = `
local now = redis.call('TIME')
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('GET', KEYS[2]) end
if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return false end
local token = math.max(tonumber(redis.call('GET', KEYS[2]) or 0) + 1, now[1] * 1000000 + now[2])
redis.call('SET', KEYS[2], string.format('%.0f', token))
return string.format('%.0f', token)`
const release = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`
const renew = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0`

export const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

export const control: Parts = {
  take: async ({ redis, key, claim }) => {
    const token = await redis.eval(take, 2, key, `${key}:token`, claim.attempt, claim.ttl)
    return token === null ? undefined : Number(token)
  },
  release: ({ redis, key, claim }) => redis.eval(release, 1, key, claim.attempt),
  renew: async ({ redis, key, claim }, ttl) => (await redis.eval(renew, 1, key, claim.attempt, ttl)) === 1,
  validUntil: (sent, _, ttl) => deadline(sent, ttl),
  park: ({ env }) => pause(5 + 15 * env.random()),
  left: async (redis, name) => (await redis.exists(toKey(name))) === 1,
  modes: ['exclusive'],
  fair: false,
}

export const toKey = (name: string): string => `plain:${name}`

export function plainDriver(redis: Redis, parts: Parts, env: Env): Driver {
  const createGrant = (at: At, token: number, until: number): Grant => {
    let validUntil = until
    return {
      token,
      get validUntil() {
        return validUntil
      },
      renew: async (ttl) => {
        const sent = env.clock.now()
        if (!(await parts.renew(at, ttl))) return undefined
        validUntil = parts.validUntil(sent, env.clock.now(), ttl)
        return validUntil
      },
      release: async () => {
        await parts.release(at)
        return 'released'
      },
    }
  }
  return {
    name: 'plain',
    traits: { modes: parts.modes, fair: parts.fair, minTtl: 1, shared: true },
    async acquire(claim, wait) {
      const at: At = { redis, key: toKey(claim.name), claim, env }
      for (;;) {
        const sent = env.clock.now()
        const token = await parts.take(at)
        if (token !== undefined)
          return createGrant(at, token, parts.validUntil(sent, env.clock.now(), claim.ttl))
        if (wait.ended || wait.remaining() === 0) return undefined
        await parts.park(at, wait)
        if (wait.ended) return undefined
      }
    },
    inspect: async (name) => {
      const held = await parts.left(redis, name)
      const holder = { attempt: '', mode: { kind: 'exclusive' }, token: 0, heldFor: 0, expiresIn: 1 } as const
      return { name, holders: held ? [holder] : [], waiters: [], lastToken: 0 }
    },
    close: async () => undefined,
  }
}
