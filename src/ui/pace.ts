/** How often a store may be asked. Pure. */

export interface Pace {
  /** The shortest time between two samples, in ms. */
  readonly interval: number
  /** The most commands a second, on average. */
  readonly budget: number
}

/** The most of its time that the store spends on samples. */
const share = 0.1

/**
 * How long to wait after a sample, in ms. A list costs about a command for every name; a store with many other keys also spends time on
 * finding the names, which only the duration shows.
 */
export function pauseAfter(pace: Pace, sample: { readonly commands: number; readonly took: number }): number {
  const forBudget = (sample.commands / pace.budget) * 1_000 - sample.took
  const forShare = sample.took * (1 / share - 1)
  return Math.max(pace.interval, forBudget, forShare)
}

/** After a failure: twice as long each time, up to half a minute. */
export function pauseAfterFailure(pace: Pace, failures: number): number {
  return Math.min(30_000, Math.max(pace.interval, 500) * 2 ** Math.min(failures, 8))
}
