import type { Acquisition, History } from '../history.js'
import { ms, type Violation, violation } from '../violation.js'

export interface LivenessOptions {
  /** Ms after the last fault within which every pending wait ends; a later call counts from itself. */
  readonly within: number
}

/**
 * A free lock with living waiters is granted. Once faults have stopped, every acquisition of a living process ends, with or without a
 * grant, within the bound (or within its own `wait`, if that is longer and it then gave up).
 */
export function liveness(history: History, options: LivenessOptions): Violation[] {
  const quiet = history.events.findLast((event) => event.op === 'fault')?.t ?? 0
  const bound = options.within * 1e6
  return history.acquisitions.flatMap((one) => {
    const ended = one.granted ?? one.failed ?? one.died
    const since = Math.max(quiet, one.invoked)
    if (ended !== undefined && ended - since <= bound) return []
    if (ended !== undefined && one.failed === ended && ended - since <= one.wait * 1e6) return []
    return [
      violation(history, {
        rule: 'liveness',
        name: one.name,
        ...describe(one, history.end, ended, since, bound),
      }),
    ]
  })
}

function describe(one: Acquisition, end: number, ended: number | undefined, since: number, bound: number) {
  const name = JSON.stringify(one.name)
  const message =
    ended === undefined
      ? `${name}: an acquisition never ended; the history goes on for ${ms(end - since)} after the last fault and its call`
      : `${name}: an acquisition took ${ms(ended - since)} after the last fault and its call; the bound is ${ms(bound)}`
  return { message, at: ended ?? end, parties: [one] }
}
