/** What happens in a run, as plain data: whoever has a plan can see the run again, and try it with less in it. */
import fc from 'fast-check'
import type { StoreFault, StoreKind } from './stores/store.js'

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
}

export interface Fault {
  readonly at: number
  readonly kind: StoreFault | 'stall' | 'sleep' | 'kill'
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
}

export const permitsOfAll = 3

/** Runs that such a store can be put through. Faults cluster in the first second, when most is going on. */
export function plansFor(kind: StoreKind): fc.Arbitrary<Plan> {
  const processes = { min: 0, max: 2 }
  const visit = fc.record<Visit>({
    process: fc.integer(processes),
    at: fc.integer({ min: 0, max: 600 }),
    name: fc.constantFrom(0, 0, 0, 0, 1, 2),
    shared: fc.boolean(),
    permits: fc.integer({ min: 1, max: permitsOfAll }),
    wait: fc.constantFrom(-1, -1, -1, 0, 40, 300),
    ttl: fc.constantFrom(100, 300, 1_000),
    fair: fc.boolean(),
    stay: fc.constantFrom(0, 3, 40, 150, 400),
    leaves: fc.constantFrom('release', 'release', 'release', 'extend, release', 'abandon'),
    abort: fc.constantFrom(-1, -1, -1, -1, 0, 30, 200),
  })
  const own = kind.shared ? (['stall', 'sleep', 'kill'] as const) : []
  const kinds: readonly Fault['kind'][] = [...own, ...kind.faults]
  const fault = fc.record<Fault>({
    at: fc.integer({ min: 0, max: 900 }),
    kind: fc.constantFrom(...(kinds.length > 0 ? kinds : (['stall'] as const))),
    process: fc.integer(processes),
    ms: fc.constantFrom(20, 150, 700, 2_500),
  })
  const rate = kind.shared ? fc.integer({ min: -4, max: 4 }) : fc.constant(0)
  return fc.record<Plan>({
    seed: fc.integer(),
    lock: fc.constantFrom('mutex', 'mutex', 'readWrite', 'semaphore'),
    rates: fc.tuple(rate, rate, rate),
    visits: fc.array(visit, { minLength: 2, maxLength: 8 }),
    faults: fc.array(fault, { maxLength: kinds.length > 0 ? 4 : 0 }),
  })
}
