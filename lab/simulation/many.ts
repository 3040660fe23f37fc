/** Many schedules side by side: they share nothing, so each step of all of them needs only one turn of the event loop. */
import { type Mistakes, type Outcome, Run } from './run.js'
import { type Scenario, scenarioOf, shrink } from './scenario.js'

export interface Tally {
  schedules: number
  steps: number
  acquisitions: number
  failed: Outcome[]
}

const width = 64

/**
 * @param to excluded
 * @param most of those that go wrong; then it ends
 */
export async function simulateMany(
  from: number,
  to: number,
  mistakes: Mistakes = {},
  most = 3,
): Promise<Tally> {
  const tally: Tally = { schedules: 0, steps: 0, acquisitions: 0, failed: [] }
  let next = from
  const runs: Run[] = []
  while ((next < to && tally.failed.length < most) || runs.length > 0) {
    while (runs.length < width && next < to && tally.failed.length < most) {
      runs.push(new Run(scenarioOf(next++), mistakes))
    }
    for (let i = runs.length - 1; i >= 0; i--) {
      const run = runs[i] as Run
      run.step()
      if (!run.over) continue
      runs.splice(i, 1)
      note(tally, run.outcome())
    }
    await new Promise(setImmediate)
  }
  return tally
}

function note(tally: Tally, outcome: Outcome): void {
  tally.schedules++
  tally.steps += outcome.steps
  tally.acquisitions += outcome.acquisitions
  if (failed(outcome)) tally.failed.push(outcome)
}

export const failed = ({ violations, troubles }: Outcome): boolean => violations.length + troubles.length > 0

export async function simulate(
  scenario: Scenario,
  mistakes: Mistakes = {},
): Promise<Outcome & { fingerprint: string }> {
  const run = new Run(scenario, mistakes)
  while (!run.over) {
    run.step()
    await new Promise(setImmediate)
  }
  return { ...run.outcome(), fingerprint: run.fingerprint() }
}

/** The smallest scenario that goes wrong in the same way. */
export async function shrunk(
  { scenario, violations, troubles }: Outcome,
  mistakes: Mistakes = {},
): Promise<Outcome> {
  const rules = new Set(violations.map(({ rule }) => rule))
  const alike = async (smaller: Scenario) => {
    const again = await simulate(smaller, mistakes)
    return rules.size > 0
      ? again.violations.some(({ rule }) => rules.has(rule))
      : troubles.length > 0 && again.troubles.length > 0
  }
  return simulate(await shrink(scenario, alike), mistakes)
}
