/** Looks for a plan that breaks a store, and for the least one that still does. */
import fc from 'fast-check'
import { printViolation, renderText, timelineOf } from 'holdfast/verify'
import { type Plan, plansFor } from './plan.js'
import { type Outcome, play } from './play.js'
import type { StoreKind } from './stores/store.js'

export interface Found {
  /** How many runs there were, without those that made a plan smaller. */
  readonly runs: number
  /** The least plan that broke it; undefined: none did. */
  readonly plan: Plan | undefined
}

/** Worlds side by side in one thread: most of a run is waiting for promises, which then is waiting for many at once. */
const lanes = 16
/** Plays that making a plan smaller may take. */
const patience = 400

/**
 * @param seed every seed means other plans, and always the same ones
 * @param broken which outcomes count; by default any violation or complaint does
 */
export async function search(
  kind: StoreKind,
  runs: number,
  seed: number,
  broken: (outcome: Outcome) => boolean = isBroken,
): Promise<Found> {
  const plans = plansFor(kind)
  let done = 0
  let first: { readonly seed: number; readonly path: string } | undefined
  const lane = async (number: number): Promise<void> => {
    const property = fc.asyncProperty(plans, async (plan) => {
      // Whoever was first is enough: the others come to their end without another run.
      if (first !== undefined) return true
      done++
      return !broken(await play(plan, kind))
    })
    const from = seed * lanes + number
    const { failed, counterexamplePath } = await fc.check(property, {
      seed: from,
      numRuns: Math.ceil(runs / lanes),
      endOnFailure: true,
    })
    if (failed && counterexamplePath !== null) first ??= { seed: from, path: counterexamplePath }
  }
  await Promise.all(Array.from({ length: Math.min(lanes, runs) }, (_, number) => lane(number)))
  return { runs: done, plan: first && (await least(kind, plans, first, broken)) }
}

/** The least plan that is found by leaving things out of the one that `path` leads to. */
async function least(
  kind: StoreKind,
  plans: fc.Arbitrary<Plan>,
  { seed, path }: { readonly seed: number; readonly path: string },
  broken: (outcome: Outcome) => boolean,
): Promise<Plan> {
  let plays = 0
  const property = fc.asyncProperty(
    plans,
    async (plan) => ++plays > patience || !broken(await play(plan, kind)),
  )
  const { counterexample } = await fc.check(property, { seed, path })
  const plan = counterexample?.[0]
  if (plan === undefined) throw new Error(`the run ${seed} ${path} broke ${kind.name} once, and not again`)
  return plan
}

export function isBroken({ violations, complaints }: Outcome): boolean {
  return violations.length + complaints.length > 0
}

/** The plan, what it breaks, and how that looks. */
export async function tell(plan: Plan, kind: StoreKind): Promise<string> {
  const { history, violations, complaints } = await play(plan, kind)
  const names = new Set(history.acquisitions.map(({ name }) => name))
  return [
    `${kind.name}: ${JSON.stringify(plan)}`,
    ...complaints,
    ...violations.map(printViolation),
    ...[...names].map((name) => renderText(timelineOf(history, { name, violations }))),
  ].join('\n')
}
