/**
 * Lock caching (`linger`) with one mistake each: the unmodified redis driver, whose grants are wrapped before the core sees them. They run in the fault lab and
 * in the simulation of Redis.
 */
import type { DriverFactory } from 'holdfast'
import type { Claim, Grant, Wait } from 'holdfast/driver'
import type { Rule } from 'holdfast/verify'

export interface CachingMistake {
  readonly mistake: string
  /** Any of these is a catch. */
  readonly caughtBy: readonly Rule[]
  /** Only kinds of faults that contain one of these words; none: it fails without faults. */
  readonly under: readonly string[]
  readonly breaking: (factory: DriverFactory) => DriverFactory
}

export const cachingMistakes: Readonly<Record<string, CachingMistake>> = {
  'reuses what has run out': {
    mistake:
      'a lock that has stayed here is used again though its time is over: nobody looks at the deadline',
    caughtBy: ['exclusion'],
    under: ['pause worker', 'block worker'],
    breaking: (factory) => keeping(factory, (until, now) => until <= now),
  },
  'reuses what it has given back': {
    mistake: 'a lock that has stayed here is given back when somebody waits, and used again all the same',
    caughtBy: ['exclusion'],
    under: [],
    breaking: (factory) => keeping(factory, (until, now) => until > now),
  },
  'hides the holder': {
    mistake:
      'a single attempt does not learn that the lock may only have stayed there, and does not queue for it',
    caughtBy: ['false-busy'],
    under: [],
    breaking: hiding,
  },
  'gives nothing back': {
    mistake: 'a lock that has stayed here is not given back when somebody waits',
    caughtBy: ['liveness'],
    under: ['forget scripts'],
    breaking: (factory) => wrapping(factory, deaf),
  },
}

// Only the simulation catches these two: in the lab every linger ends long before a wait counts as endless, and there is nearly always a waiter that
// gave up shortly before and is a reason to refuse a try.
const { 'gives nothing back': _, 'hides the holder': __, ...caught } = cachingMistakes
export const caughtInLab: Readonly<Record<string, CachingMistake>> = caught

/** See `src/core/caching.ts`. */
const mayBeCached = ({ attempt }: Claim) => attempt.endsWith('z')

type Traps = (grant: Grant, claim: Claim) => Partial<Record<keyof Grant, () => unknown>>

/** Properties that `traps` has are read from there. */
function wrapping(factory: DriverFactory, traps: Traps): DriverFactory {
  return (env) => {
    const driver = factory(env)
    return {
      ...driver,
      acquire: async (claim, wait) => {
        const grant = await driver.acquire(claim, wait)
        if (grant === undefined || !mayBeCached(claim)) return grant
        const own = traps(grant, claim)
        return new Proxy(grant, {
          get: (target, key) => {
            const trap = own[key as keyof Grant]
            if (trap !== undefined) return trap()
            const value: unknown = Reflect.get(target, key)
            return typeof value === 'function' ? value.bind(target) : value
          },
          set: (target, key, value) => Reflect.set(target, key, value),
        })
      },
    }
  }
}

function hiding(factory: DriverFactory): DriverFactory {
  return (env) => {
    const driver = factory(env)
    const silent = (wait: Wait): Wait => ({
      signal: wait.signal,
      get ended() {
        return wait.ended
      },
      remaining: () => wait.remaining(),
    })
    return {
      ...driver,
      acquire: (claim, wait) => driver.acquire(claim, wait.remaining() === 0 ? silent(wait) : wait),
    }
  }
}

const deaf: Traps = () => ({
  contended: () => () => false,
  // One exists already, so the core sets none.
  onContended: () => () => undefined,
})

/**
 * Grants the last grant of this process again, without a request.
 * @param isUsed of a grant valid until then: was it released early, or has it expired?
 */
function keeping(
  factory: DriverFactory,
  isUsed: (validUntil: number, now: number) => boolean,
): DriverFactory {
  return (env) => {
    const driver = factory(env)
    const last = new Map<string, { readonly grant: Grant; until: number; isReleased: boolean }>()
    const noting = wrapping(
      () => driver,
      (grant, { name }) => {
        const kept = { grant, until: grant.validUntil, isReleased: false }
        last.set(name, kept)
        return {
          validUntil: () => {
            kept.until = Math.max(kept.until, grant.validUntil)
            return grant.validUntil
          },
          release: () => () => {
            kept.isReleased = true
            return grant.release()
          },
        }
      },
    )(env)
    return {
      ...noting,
      acquire: async (claim, wait) => {
        const now = env.clock.now()
        const kept = last.get(claim.name)
        last.delete(claim.name)
        const { grant, until = 0, isReleased } = kept ?? {}
        const hasRunOut = until <= now
        if (grant && mayBeCached(claim) && (isReleased || hasRunOut) && isUsed(until, now)) {
          const token = grant.nextReservedToken?.()
          const validUntil = hasRunOut ? now + claim.ttl : until
          const renew = (ttl: number, signal: AbortSignal) => grant.renew(ttl, signal)
          if (token !== undefined) return { token, validUntil, renew, release: () => grant.release() }
        }
        return noting.acquire(claim, wait)
      },
    }
  }
}
