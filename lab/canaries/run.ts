/** Runs a canary through the fault lab until it is caught, or its budget is used up. */
import { check, type History, type Violation } from 'holdfast/verify'
import { runLab } from '../faults/run.js'
import type { Verdict } from '../faults/verdict.js'
import { canaries } from './mistakes.js'

export interface Catch {
  readonly name: string
  readonly caught: Violation | undefined
  /** Seconds from the first process to the verdict. */
  readonly took: number
  readonly faults: number
  readonly granted: number
}

/** Seconds of faults, which end as soon as it is caught; the verdict on mistakes that show only at the end comes some seconds later. */
export const budget = 60

/** The same lock without a mistake, under the same faults: the lab must find nothing. */
export const controlModule: string = `${new URL('./driver.js', import.meta.url).href}?control`

/** A fault must hit the mistake at the right moment: if one seed does not show it within its budget, another may. */
const maxBudgets = 3

export async function tryCanary(name: string, seed: number): Promise<Catch> {
  for (let n = 1; ; n++) {
    const result = await tryOnce(name, seed + n - 1)
    if (result.caught !== undefined || n === maxBudgets) return result
  }
}

async function tryOnce(name: string, seed: number): Promise<Catch> {
  const canary = canaries[name]
  if (canary === undefined)
    throw new RangeError(`no canary is called '${name}'; there are: ${Object.keys(canaries).join(', ')}`)
  const wanted = (violation: Violation) => canary.caughtBy.includes(violation.rule)
  const seen = (history: History, judge: () => Verdict) =>
    check(history, { falseBusy: false, leaks: false }).some(wanted) && judge().violations.some(wanted)
  const late = canary.caughtBy.includes('liveness')
  const result = await runLab({
    name,
    module: `${new URL('./driver.js', import.meta.url).href}?${encodeURIComponent(name)}`,
    seed,
    seconds: late ? budget / 4 : budget,
    ttl: 300,
    rate: 6,
    only: canary.under,
    stopWhen: seen,
  })
  const caught = result.violations.find(wanted)
  const { took, plan, counts } = result
  return { name, caught, took, faults: plan.length, granted: counts.granted }
}
