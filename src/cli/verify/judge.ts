/** What the history of a fault run shows. */
import {
  check,
  findStarvation,
  type History,
  isLateByStarvation,
  printViolation,
  type Violation,
} from 'holdfast/verify'

export interface Judgement {
  readonly acquisitions: number
  readonly granted: number
  readonly lost: number
  readonly violations: readonly { readonly rule: string; readonly message: string; readonly story: string }[]
  /** What the machine did: for how long some process of the run was ready to run and got no processor, and the waits that ended late because of it. */
  readonly starved: { readonly ms: number; readonly waits: readonly string[] }
}

/** @param ttl that of the run's locks, in ms */
export function judge(whole: History, ttl: number): Judgement {
  const starvation = findStarvation(whole)
  const { history } = starvation
  const { acquisitions } = history
  const bound = 4 * ttl + 10_000
  // A waiter whose process was touched may lose its queue entry, and a fault may outlast a wait: conformance checks the order instead.
  const found = check(history, {
    fifo: false,
    falseBusy: { lag: 3 * ttl },
    liveness: { within: bound },
  })
  const isLate = (one: Violation) => isLateByStarvation(one, starvation, bound)
  const violations = found.filter((one) => !isLate(one))
  return {
    acquisitions: acquisitions.length,
    granted: acquisitions.filter((one) => one.granted !== undefined).length,
    lost: acquisitions.filter((one) => one.lost !== undefined).length,
    violations: violations.map((one) => ({
      rule: one.rule,
      message: one.message,
      story: printViolation(one),
    })),
    starved: {
      ms: Math.round(starvation.within(0, history.end)),
      waits: found.filter(isLate).map(({ message }) => message),
    },
  }
}
