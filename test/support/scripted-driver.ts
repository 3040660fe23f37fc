/**
 * A driver whose every answer the test gives by hand, to put the core into situations that a real store reaches only by
 * luck: an answer that comes late, never, or twice. It stands in for timing, not for a store.
 */

import type { Ability } from 'holdfast'
import { deadline } from '../../src/core/clock.js'
import type {
  Claim,
  Driver,
  DriverFactory,
  Env,
  Grant,
  ReleaseResult,
  Traits,
  Wait,
} from '../../src/core/driver.js'
import { Engine } from '../../src/core/engine.js'
import type { Defaults } from '../../src/core/options.js'
import { type Locks, locksOver } from '../../src/create-locks.js'
import { type FakeClock, fakeClock } from './fake-clock.js'

export interface Asked {
  readonly claim: Claim
  readonly wait: Wait
  /** Answers the claim with a grant made from what is given. */
  grant(parts?: Partial<ScriptedGrant>): ScriptedGrant
  nothing(): void
  fail(error: unknown): void
}

export interface AskedTogether {
  readonly claims: readonly Claim[]
  readonly wait: Wait
  grant(parts?: Partial<ScriptedGrant>): readonly ScriptedGrant[]
  nothing(): void
  fail(error: unknown): void
}

export interface ScriptedGrant extends Grant {
  validUntil: number
  readonly renewals: Renewal[]
  releases: number
}

export interface Renewal {
  readonly ttl: number
  readonly sentAt: number
  readonly signal: AbortSignal
  /** Proven: until a full ttl after it was sent. */
  ok(): void
  gone(): void
  fail(error: unknown): void
}

export interface Script {
  readonly clock: FakeClock
  readonly locks: Locks
  readonly engine: Engine
  readonly asked: Asked[]
  /** Only where `traits.acquireMany`. */
  readonly askedTogether: AskedTogether[]
  /** What `release` of every grant answers. */
  onRelease: () => Promise<ReleaseResult>
  /** What `inspect` answers; by default that nobody holds the lock. */
  onInspect?: Driver['inspect']
}

const traits: Traits = { modes: ['exclusive', 'shared', 'permits'], fair: true, minTtl: 10, shared: true }

export function script(options: { traits?: Partial<Traits>; defaults?: Defaults } = {}): Script {
  const clock = fakeClock()
  const asked: Asked[] = []
  const askedTogether: AskedTogether[] = []
  const result: Omit<Script, 'engine' | 'locks'> = {
    ...{ clock, asked, askedTogether },
    onRelease: async () => 'released',
  }
  let token = 0

  const makeGrant = (claim: Claim, sent: number, parts: Partial<ScriptedGrant>): ScriptedGrant => {
    const renewals: Renewal[] = []
    const grant: ScriptedGrant = {
      token: ++token * 100,
      validUntil: deadline(sent, claim.ttl),
      renewals,
      releases: 0,
      renew: (ttl, signal) =>
        new Promise((resolve, reject) => {
          const sentAt = clock.now()
          const ok = () => {
            grant.validUntil = Math.max(grant.validUntil, deadline(sentAt, ttl))
            resolve(grant.validUntil)
          }
          renewals.push({ ttl, sentAt, signal, ok, gone: () => resolve(undefined), fail: reject })
        }),
      release: () => {
        grant.releases++
        return result.onRelease()
      },
      ...parts,
    }
    return grant
  }

  const factory: DriverFactory = (_env: Env): Driver => ({
    name: 'scripted',
    traits: { ...traits, ...options.traits },
    acquire: (claim, wait) => {
      const sent = clock.now()
      return new Promise((resolve, reject) => {
        asked.push({
          claim,
          wait,
          grant: (parts = {}) => {
            const grant = makeGrant(claim, sent, parts)
            resolve(grant)
            return grant
          },
          nothing: () => resolve(undefined),
          fail: reject,
        })
      })
    },
    ...(options.traits?.acquireMany && {
      acquireMany: (claims: readonly Claim[], wait: Wait) => {
        const sent = clock.now()
        return new Promise<readonly Grant[] | undefined>((resolve, reject) => {
          askedTogether.push({
            claims,
            wait,
            grant: (parts = {}) => {
              const grants = claims.map((claim) => makeGrant(claim, sent, parts))
              resolve(grants)
              return grants
            },
            nothing: () => resolve(undefined),
            fail: reject,
          })
        })
      },
    }),
    inspect: async (name) => result.onInspect?.(name) ?? { name, holders: [], waiters: [], lastToken: token },
    close: async () => undefined,
  })
  let ids = 0
  const env: Env = { clock, id: () => `attempt-${++ids}`, random: () => 0.5, client: 'test:1' }
  const engine = new Engine(factory, options.defaults, env)
  return Object.assign(result, { engine, locks: locksOver<Ability>(engine) })
}
