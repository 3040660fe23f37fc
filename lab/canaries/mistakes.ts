/** The canaries: the mistake of each, the rule that must catch it, and the faults it needs. */
import type { Rule } from 'holdfast/verify'
import { caughtInLab } from './caching.js'
import { type Breaking, clockIsToken } from './clock-token.js'
import type { Votes } from './naive-redlock.js'
import { control, type Parts, pause, toKey } from './plain-lock.js'
import { queuedLock } from './queued-lock.js'

export interface Canary {
  readonly mistake: string
  /** Any of these is a catch. */
  readonly caughtBy: readonly Rule[]
  /** Only kinds of faults that contain one of these words; none: it fails without faults. */
  readonly under: readonly string[]
  readonly parts?: Partial<Parts>
  /** Over five servers, by votes: see `naive-redlock.ts`. */
  readonly votes?: Votes
  /** The redis driver with this mistake instead of a plain lock: `caching.ts`, `clock-token.ts`. */
  readonly breaking?: Breaking
}

const last = (at: { key: string }) => `${at.key}:token`
const micros = () => Math.floor((performance.timeOrigin + performance.now()) * 1000)

export const canaries: Readonly<Record<string, Canary>> = {
  'setnx then expire': {
    mistake: 'the key and its expiry are two commands: who dies in between locks for ever',
    caughtBy: ['liveness', 'leaks'],
    under: ['kill worker'],
    parts: {
      take: async ({ redis, key, claim }) => {
        if ((await redis.setnx(key, claim.attempt)) === 0) return undefined
        const token = await redis.incr(`${key}:token`)
        await redis.pexpire(key, claim.ttl)
        return token
      },
    },
  },
  'deletes whatever is there': {
    mistake: 'a release deletes the key without asking whose it is',
    caughtBy: ['exclusion'],
    under: ['pause worker', 'block worker', 'connections: requests late'],
    parts: { release: ({ redis, key }) => redis.del(key) },
  },
  "believes the clients' clocks": {
    mistake: 'the key holds a wall-clock time, and any process that finds it in the past takes over',
    caughtBy: ['exclusion'],
    under: ['wall clock'],
    parts: {
      take: async ({ redis, key, claim }) => {
        const mine = `${Date.now() + claim.ttl}:${claim.attempt}`
        const there = await redis.set(key, mine, 'GET')
        const [until = '0'] = (there ?? '').split(':')
        if (Number(until) >= Date.now()) {
          await redis.set(key, there ?? '')
          return undefined
        }
        return redis.incr(`${key}:token`)
      },
      release: async ({ redis, key }) => redis.del(key),
      renew: async ({ redis, key, claim }, ttl) =>
        (await redis.set(key, `${Date.now() + ttl}:${claim.attempt}`)) === 'OK',
    },
  },
  'deadline from the answer': {
    mistake: 'the lease is counted from when the answer was read',
    caughtBy: ['exclusion'],
    under: ['connections: replies late', 'connections: replies held back', 'pause worker', 'block worker'],
    parts: { validUntil: (_, answered, ttl) => answered + ttl },
  },
  'deadline from the push': {
    mistake: 'a lock that is handed over is counted from when the message was heard',
    caughtBy: ['exclusion'],
    under: ['connections: replies late', 'connections: replies held back'],
    parts: queuedLock({ clockFromPush: true }),
  },
  'trusts the message': {
    mistake: 'a waiter that is sent a message which is lost waits for ever',
    caughtBy: ['liveness'],
    under: ['kill subscriptions', 'connections: reset', 'kill connections'],
    parts: queuedLock({ neverLooks: true }),
  },
  'no token': {
    mistake: 'the token is the time in seconds',
    caughtBy: ['tokens'],
    under: [],
    parts: { take: async (at) => (await control.take(at)) && Math.floor(micros() / 1e6) },
  },
  'a bare counter': {
    mistake: 'the token is a counter of the store, which begins anew when the store forgets',
    caughtBy: ['tokens'],
    under: ['flush'],
    parts: { take: async (at) => (await control.take(at)) && at.redis.incr(`${at.key}:counter`) },
  },
  'a zombie': {
    mistake: 'a request that got no answer in time is given up and not undone; the lock it takes outlives it',
    caughtBy: ['liveness', 'leaks'],
    under: ['connections: replies late', 'connections: replies lost', 'connections: requests late'],
    parts: {
      take: (at) => {
        const long = { ...at, claim: { ...at.claim, ttl: 120_000 } }
        const gone = pause(60).then(() => undefined)
        return Promise.race([control.take(long), gone])
      },
      renew: async () => true,
    },
  },
  'every answer is a yes': {
    mistake: 'a renewal does not look what it was told',
    caughtBy: ['exclusion'],
    under: ['flush'],
    parts: {
      renew: async (at, ttl) => {
        await control.renew(at, ttl)
        return true
      },
    },
  },
  'permits by client clocks': {
    mistake: 'a semaphore is a list of wall-clock times, and every newcomer removes old ones',
    caughtBy: ['permits'],
    under: ['wall clock'],
    parts: {
      modes: ['permits'],
      take: async ({ redis, key, claim }) => {
        const { mode, attempt, ttl } = claim
        if (mode.kind !== 'permits') return undefined
        await redis.zremrangebyscore(key, '-inf', Date.now() - ttl)
        const mine = Array.from({ length: mode.take }, (_, n) => `${attempt}:${n}`)
        await redis.zadd(key, ...mine.flatMap((one) => [`${Date.now()}`, one]))
        if ((await redis.zcard(key)) <= mode.of) return redis.incr(`${key}:token`)
        await redis.zrem(key, ...mine)
        return undefined
      },
      release: async ({ redis, key, claim }) => {
        const mine = await redis.zrange(key, '0', '-1')
        const own = mine.filter((one) => one.startsWith(claim.attempt))
        if (own.length > 0) await redis.zrem(key, ...own)
      },
      renew: async ({ redis, key, claim }) => {
        const own = (await redis.zrange(key, '0', '-1')).filter((one) => one.startsWith(claim.attempt))
        for (const one of own) await redis.zadd(key, 'XX', `${Date.now()}`, one)
        return own.length > 0
      },
      left: async (redis, name) => (await redis.zcard(toKey(name))) > 0,
    },
  },
  'readers nobody sees': {
    mistake: 'a writer looks for writers only',
    caughtBy: ['read-write'],
    under: [],
    parts: {
      modes: ['exclusive', 'shared'],
      take: async (at) => {
        if (at.claim.mode.kind === 'exclusive') return control.take(at)
        if ((await at.redis.exists(at.key)) === 1) return undefined
        return at.redis.incr(last(at))
      },
      release: async (at) => (at.claim.mode.kind === 'exclusive' ? control.release(at) : undefined),
      renew: async (at, ttl) => (at.claim.mode.kind === 'exclusive' ? control.renew(at, ttl) : true),
    },
  },
  'promises an order': {
    mistake: 'says it is first come, first served, and grants any process that asks at the right moment',
    caughtBy: ['fifo'],
    under: [],
    parts: {
      fair: true,
      park: async ({ env }, wait) => {
        wait.report?.({ position: 1 })
        await pause(40 * env.random())
      },
    },
  },
  'redlock, clock from the count': {
    mistake: 'a majority is counted from when the last vote was heard',
    caughtBy: ['exclusion'],
    under: ['connections: replies late', 'connections: replies held back', 'pause worker', 'block worker'],
    parts: {},
    votes: { lateClock: true },
  },
  'redlock, votes counted twice': {
    mistake: 'a vote that is asked for again, because the answer was slow, counts each time',
    caughtBy: ['exclusion'],
    under: ['connections: replies late', 'server: pause', 'server: busy'],
    parts: {},
    votes: { countsTwice: true },
  },
  'redlock, forgetful servers': {
    mistake: 'a server that has lost its data votes again at once',
    caughtBy: ['exclusion'],
    under: ['start again without data', 'flush'],
    parts: {},
    votes: { justEnough: true },
  },
  'the clock is the token': clockIsToken,
  ...caughtInLab,
}
