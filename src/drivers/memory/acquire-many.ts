/** Several attempts of `table.ts` as one step: at rows of different names, all granted or nothing changed. */
import { type Acquired, type Ask, acquire, type Hold, type Row, type Step } from './table.js'

export type NamedAsk = readonly [name: string, ask: Ask]

export type Together =
  /** In the order of the asks. */
  | { readonly is: 'granted'; readonly steps: readonly Step<Acquired>[]; readonly holds: readonly Hold[] }
  /** The answer to the ask at this index. */
  | { readonly is: 'refused'; readonly at: number; readonly why: Exclude<Acquired, { is: 'granted' }> }

/** Decides, but changes nothing: storing the rows of all steps grants all. Overdue holds found on the way will be found again. */
export function together(
  rowOf: (name: string) => Row,
  asks: readonly NamedAsk[],
  now: number,
  wall: number,
): Together {
  const steps: Step<Acquired>[] = []
  const holds: Hold[] = []
  for (const [at, [name, ask]] of asks.entries()) {
    const step = acquire(rowOf(name), { ...ask, wait: false }, now, wall)
    if (step.answer.is !== 'granted') return { is: 'refused', at, why: step.answer }
    steps.push(step)
    holds.push(step.answer.hold)
  }
  return { is: 'granted', steps, holds }
}
