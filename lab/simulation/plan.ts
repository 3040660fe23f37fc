/** What happens in a run, as plain data: a plan can be replayed, and shrunk. */
import type { StoreFault, StoreKind } from './stores/store.js'
import { createRandom } from './world.js'

/** A visit: somebody acquires a lock, holds it for a while, and leaves. */
export interface Visit {
  readonly process: number
  /** Milliseconds since the world began. */
  readonly at: number
  /** 2: both locks as one. */
  readonly name: number
  readonly shared: boolean
  readonly permits: number
  /** -1: without limit; 0: one attempt. */
  readonly wait: number
  readonly ttl: number
  readonly fair: boolean
  /** Milliseconds for which it holds the lock. */
  readonly stay: number
  /** `abandon`: neither releases nor renews. */
  readonly leaves: 'release' | 'extend, release' | 'abandon'
  /** Milliseconds after which it aborts; -1: never. */
  readonly abort: number
  /** Milliseconds for which the lock stays with its process after a release. */
  readonly linger?: number
  /** How often the visit is repeated, and after how many milliseconds. */
  readonly returns?: number
  readonly pause?: number
}

export interface Fault {
  readonly at: number
  readonly kind: StoreFault | 'stall' | 'sleep' | 'kill' | 'force'
  readonly process: number
  readonly ms: number
}

export interface Plan {
  /** The seed of everything left to chance: delays of messages, the order of simultaneous events. */
  readonly seed: number
  readonly lock: 'mutex' | 'readWrite' | 'semaphore'
  /** How much faster than the world the clock of each process runs, in thousandths. */
  readonly rates: readonly number[]
  readonly visits: readonly Visit[]
  readonly faults: readonly Fault[]
  /** All clients close once all visits are over and all faults have begun, but not before this many ms. */
  readonly closes: number
}

export const permitsOfAll = 3

/** How many of ten plans are small: two processes, up to four visits, close together. */
const smallOfTen = 9

/**
 * Plan number `number` of the sequence that `seed` defines, for a store of this kind. Most mistakes need few visits and
 * few faults, but at nearly the same time; so most plans are small and dense. The others are as large as possible,
 * because some mistakes need a longer queue or a third process.
 *
 * In half of the plans each choice is made once for all visits: ten fair visits in a row would hardly ever occur by chance.
 */
export function createPlan(kind: StoreKind, seed: number, number: number): Plan {
  const chance = createRandom(Math.imul(seed, 0x9e3779b1) ^ Math.imul(number + 1, 0x85ebca6b))
  const below = (end: number) => Math.floor(chance() * end)
  const pick = <T>(of: readonly T[]) => of[below(of.length)] as T
  const alike = <T>(of: readonly T[]) => {
    const same = below(2) === 1
    const first = pick(of)
    return () => (same ? first : pick(of))
  }
  const small = below(10) < smallOfTen
  const processes = small ? 2 : 3
  /** Visits begin, and faults cluster, within this many ms. */
  const span = small ? pick(spans) : maxSpan
  const behave = behaviour(alike)
  const visits = Array.from({ length: small ? pick(few) : 2 + below(7) }, (): Visit => {
    return { process: below(processes), at: below(span + 1), ...behave() }
  })
  const kinds = alike(kind.shared ? [...faultsOfProcesses, ...kind.faults] : kind.faults)
  const faults = Array.from({ length: faultTargets(kind) ? below(small ? 3 : 5) : 0 }, (): Fault => {
    // The fault hits a visitor, in half of the cases while its first request is in flight.
    const { process, at } = pick(visits)
    return {
      at: below(2) === 1 ? at + below(5) : below(1.5 * span),
      kind: kinds(),
      process,
      ms: pick(lengths),
    }
  })
  const plan: Plan = {
    seed: below(2 ** 32) | 0,
    lock: pick(locks),
    rates: Array.from({ length: processes }, () => (kind.shared ? below(9) - 4 : 0)),
    visits,
    faults,
    closes: small ? pick(closings) : lastClosing,
  }
  return kind.caching === true ? lingering(plan, createRandom(~plan.seed)) : plan
}

/**
 * In some plans the lock stays with its process for a while, and a process that has released it takes it again. This is drawn separately, so that the rest
 * of the plan is the same as for a store without lock caching.
 */
function lingering(plan: Plan, chance: () => number): Plan {
  const below = (end: number) => Math.floor(chance() * end)
  const pick = <T>(of: readonly T[]) => of[below(of.length)] as T
  if (plan.lock === 'semaphore' || below(lingerOf) > 0) return plan
  const all = below(2) === 1
  const visits = plan.visits.map((visit): Visit => {
    const linger = all || below(2) === 1 ? pick(lingers) : 0
    // The first release caches nothing: the process cannot be notified of waiters yet. A fair request never gets a cached lock.
    const fair = visit.fair && below(4) === 0
    return linger === 0 ? visit : { ...visit, fair, linger, returns: pick(manyReturns), pause: pick(pauses) }
  })
  if (below(forcedOf) > 0) return { ...plan, visits }
  const { process, at } = pick(visits)
  const force: Fault = { kind: 'force', process, at: at + below(100), ms: 0 }
  return { ...plan, visits, faults: [...plan.faults, force] }
}

/** One in this many plans lingers, if the store supports it; in one in this many of those, an operator takes the lock. */
const lingerOf = 3
const forcedOf = 8
/** The last value: until somebody requests the lock. */
const lingers = [5, 60, 400, 1_000_000]
const manyReturns = [0, 2, 3, 5]
/** Never immediately: a grant at the instant of a release is a hand-over, not a reuse. */
const pauses = [0.5, 4, 40, 200]

const faultTargets = (kind: StoreKind) => kind.shared || kind.faults.length > 0

const few = [2, 3, 3, 4]
const maxSpan = 600
const spans = [10, 60, 200]
const lastClosing = 1_000
const closings = [0, 0, lastClosing]
const locks = ['mutex', 'mutex', 'readWrite', 'semaphore'] as const
const faultsOfProcesses = ['stall', 'sleep', 'kill'] as const
const lengths = [20, 150, 700, 2_500]

/** Choices that a process makes from a few alternatives. */
function behaviour(alike: <T>(of: readonly T[]) => () => T): () => Omit<Visit, 'process' | 'at'> {
  const name = alike([0, 0, 0, 0, 0, 0, 1, 2])
  const shared = alike([false, true])
  const permits = alike([1, 2, permitsOfAll])
  const wait = alike([-1, -1, -1, 0, 40, 300])
  const ttl = alike([100, 300, 1_000])
  const fair = alike([false, true])
  const stay = alike([0, 3, 40, 150, 400])
  const leaves = alike(['release', 'release', 'extend, release', 'abandon'] as const)
  const abort = alike([-1, -1, -1, -1, 0, 30, 200])
  return () => ({
    name: name(),
    shared: shared(),
    permits: permits(),
    wait: wait(),
    ttl: ttl(),
    fair: fair(),
    stay: stay(),
    leaves: leaves(),
    abort: abort(),
  })
}
