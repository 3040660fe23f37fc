/** A schedule as text: what was to happen, and what went wrong. */
import { printViolation } from 'holdfast/verify'
import type { Outcome } from './run.js'

export function told({ scenario, violations, troubles, steps }: Outcome): string {
  const { seed, rates, tasks, faults } = scenario
  const line = (one: object) =>
    `  ${JSON.stringify(one, (_, value) => (value === Number.POSITIVE_INFINITY ? 'for ever' : value))}`
  return [
    `schedule ${seed}: ${violations.length + troubles.length === 0 ? 'nothing wrong' : 'wrong'}, ${steps} steps, clocks at ${rates.map((rate) => rate.toFixed(4)).join(', ')}`,
    ...tasks.map(line),
    ...faults.map(line),
    ...violations.slice(0, 3).map(printViolation),
    ...troubles,
  ].join('\n')
}
