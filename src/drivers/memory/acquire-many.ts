/** Several attempts of `table.ts` as one step: at rows of different names, all granted or nothing changed. */
import { type AcquireRequest, type AcquireResult, acquire, type Hold, type Row, type Step } from './table.js'

export type NamedRequest = readonly [name: string, ask: AcquireRequest]

export type AcquireManyResult =
  /** In the order of the asks. */
  | {
      readonly is: 'granted'
      readonly steps: readonly Step<AcquireResult>[]
      readonly holds: readonly Hold[]
    }
  /** The answer to the ask at this index. */
  | { readonly is: 'refused'; readonly at: number; readonly why: Exclude<AcquireResult, { is: 'granted' }> }

/** Decides, but changes nothing: storing the rows of all steps grants all. Overdue holds found on the way will be found again. */
export function acquireMany(
  rowOf: (name: string) => Row,
  requests: readonly NamedRequest[],
  now: number,
  wall: number,
): AcquireManyResult {
  const steps: Step<AcquireResult>[] = []
  const holds: Hold[] = []
  for (const [at, [name, request]] of requests.entries()) {
    const step = acquire(rowOf(name), { ...request, wait: false }, now, wall)
    if (step.answer.is !== 'granted') return { is: 'refused', at, why: step.answer }
    steps.push(step)
    holds.push(step.answer.hold)
  }
  return { is: 'granted', steps, holds }
}
