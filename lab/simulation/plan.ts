/** What happens in a run, as plain data: a plan replays a run, and can be tried with less in it. */
import type { StoreFault, StoreKind } from './stores/store.js'
import { createRandom } from './world.js'

/** Somebody comes for a lock, keeps it for a while, and goes. */
export interface Visit {
  readonly process: number
  /** Milliseconds since the world began. */
  readonly at: number
  /** 2: both locks as one. */
  readonly name: number
  readonly shared: boolean
  readonly permits: number
  /** -1: for as long as it takes; 0: one attempt. */
  readonly wait: number
  readonly ttl: number
  readonly fair: boolean
  /** Milliseconds it stays. */
  readonly stay: number
  /** `abandon`: neither releases nor renews. */
  readonly leaves: 'release' | 'extend, release' | 'abandon'
  /** Milliseconds after which it does not want it any more; -1: never. */
  readonly abort: number
  /** Milliseconds for which the lock stays with its process after a release. */
  readonly linger?: number
  /** How often it comes back after it has gone, and after how many milliseconds. */
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
  /** Of everything that is left to chance: ways of messages, the order of events at one moment. */
  readonly seed: number
  readonly lock: 'mutex' | 'readWrite' | 'semaphore'
  /** How much faster than the world the clock of each process runs, in thousandths. */
  readonly rates: readonly number[]
  readonly visits: readonly Visit[]
  readonly faults: readonly Fault[]
  /** Everybody closes once all visits are over and all faults have begun, but not before so many ms. */
  readonly closes: number
}

export const permitsOfAll = 3

/** Of ten plans so many are small: two processes, up to four visits, close together. */
const smallOfTen = 9

/**
 * Plan number `number` of those that `seed` means: a run that such a store can be put through. Most mistakes need few who come and
 * little that goes wrong, but both at nearly the same time; so most plans are small and dense. The others are as large as
 * can be, because some need a longer line or a third process.
 *
 * Whatever can be chosen is, in half of the plans, chosen once for all visits: ten fair ones in a row would hardly ever come of chance.
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
  /** Visits begin, and faults cluster, within so many ms. */
  const span = small ? pick(spans) : maxSpan
  const behave = behaviour(alike)
  const visits = Array.from({ length: small ? pick(few) : 2 + below(7) }, (): Visit => {
    return { process: below(processes), at: below(span + 1), ...behave() }
  })
  const kinds = alike(kind.shared ? [...faultsOfProcesses, ...kind.faults] : kind.faults)
  const faults = Array.from({ length: faultTargets(kind) ? below(small ? 3 : 5) : 0 }, (): Fault => {
    // Done to somebody who comes, and in half of the cases while the first request is on its way.
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
 * In some plans the lock stays with its process for a while, and a process that has released it takes it again. Drawn apart from the rest: a plan is otherwise the one
 * that it is for a store that keeps nothing.
 */
function lingering(plan: Plan, chance: () => number): Plan {
  const below = (end: number) => Math.floor(chance() * end)
  const pick = <T>(of: readonly T[]) => of[below(of.length)] as T
  if (plan.lock === 'semaphore' || below(lingerOf) > 0) return plan
  const all = below(2) === 1
  const visits = plan.visits.map((visit): Visit => {
    const linger = all || below(2) === 1 ? pick(lingers) : 0
    // The first release keeps nothing: the process cannot be told yet that others wait. A fair request is never given what was kept.
    const fair = visit.fair && below(4) === 0
    return linger === 0 ? visit : { ...visit, fair, linger, returns: pick(manyReturns), pause: pick(pauses) }
  })
  if (below(forcedOf) > 0) return { ...plan, visits }
  const { process, at } = pick(visits)
  const force: Fault = { kind: 'force', process, at: at + below(100), ms: 0 }
  return { ...plan, visits, faults: [...plan.faults, force] }
}

/** One of so many plans of a store that can do it lingers; of these, an operator takes the lock in one of so many. */
const lingerOf = 3
const forcedOf = 8
/** The last one: until somebody asks for it. */
const lingers = [5, 60, 400, 1_000_000]
const manyReturns = [0, 2, 3, 5]
/** Never at once: what is granted in the moment of a release is handed over, and not reused. */
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

/** What a process does, as far as it is one of a few ways. */
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
