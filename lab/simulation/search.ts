/** Searches for a plan that breaks a store, and for the smallest that still does. */
import { createTimeline, printViolation, renderText } from 'holdfast/verify'
import { addCaching, type Caching, noCaching } from './caching.js'
import { createPlan, type Plan } from './plan.js'
import { type Outcome, play } from './play.js'
import { shrinkPlan } from './smaller.js'
import type { StoreKind } from './stores/store.js'

export interface Found {
  /** The number of runs until it was found, without those that shrank the plan. */
  readonly runs: number
  /** The smallest plan that broke it; undefined: none did. */
  readonly plan: Plan | undefined
  /** Over all runs played until then. */
  readonly caching: Caching
  /** Findings in these runs that the driver's page admits. */
  readonly admitted: number
}

/** Concurrent worlds in one thread: a run mostly waits for promises, and so waits for many at once. */
const lanes = 32

/**
 * @param seed every seed gives different plans, always the same ones
 * @param broken which outcomes count; by default any violation or complaint does
 */
export async function search(
  kind: StoreKind,
  runs: number,
  seed: number,
  broken: (outcome: Outcome) => boolean = isBroken,
): Promise<Found> {
  let caching = noCaching
  let admitted = 0
  const breaks = async (plan: Plan) => {
    const outcome = await play(plan, kind)
    caching = addCaching(caching, outcome.caching)
    admitted += outcome.admitted
    return broken(outcome)
  }
  let begun = 0
  /** The first plan that broke it. All plans before it have been started, and are played to the end. */
  let first = runs
  /** No plan may do this, whatever the search is for: the simulation itself cannot play it. */
  let failure: { readonly plan: Plan; readonly error: unknown } | undefined
  const lane = async () => {
    while (begun < first && failure === undefined) {
      const number = begun++
      const plan = createPlan(kind, seed, number)
      try {
        if (await breaks(plan)) first = Math.min(first, number)
      } catch (error) {
        failure ??= { plan, error }
      }
    }
  }
  return withoutStacks(async () => {
    await Promise.all(Array.from({ length: lanes }, lane))
    if (failure !== undefined)
      throw new Error(`${kind.name} cannot play ${JSON.stringify(failure.plan)}`, { cause: failure.error })
    if (first === runs) return { runs, plan: undefined, caching, admitted }
    const plan = createPlan(kind, seed, first)
    if (!(await breaks(plan)))
      throw new Error(`plan ${first} of seed ${seed} broke ${kind.name} once, and not again`)
    const counted = { caching, admitted }
    return { runs: first + 1, plan: await shrinkPlan(plan, breaks), ...counted }
  })
}

let searches = 0
let usual = Error.stackTraceLimit

/** Most errors here are expected, and nobody reads their stacks, which are expensive to capture. */
async function withoutStacks<T>(search: () => Promise<T>): Promise<T> {
  if (searches++ === 0) usual = Error.stackTraceLimit
  Error.stackTraceLimit = 0
  try {
    return await search()
  } finally {
    if (--searches === 0) Error.stackTraceLimit = usual
  }
}

export function isBroken({ violations, complaints }: Outcome): boolean {
  return violations.length + complaints.length > 0
}

/** The plan, what it breaks, and a picture of that. */
export async function tell(plan: Plan, kind: StoreKind): Promise<string> {
  const { history, violations, complaints } = await play(plan, kind)
  const names = new Set(history.acquisitions.map(({ name }) => name))
  return [
    `${kind.name}: ${JSON.stringify(plan)}`,
    ...complaints,
    ...violations.map(printViolation),
    ...[...names].map((name) => renderText(createTimeline(history, { name, violations }))),
  ].join('\n')
}
