/** Several commands of `table.ts` as one: attempts at rows of different names, all granted or nothing done. */
import { type Acquired, type Ask, acquire, type Hold, type Row, type Step } from './table.js'

export type NamedAsk = readonly [name: string, ask: Ask]

export type Together =
  /** In the order of the asks. */
  | { readonly is: 'granted'; readonly steps: readonly Step<Acquired>[]; readonly holds: readonly Hold[] }
  /** The answer that the ask at this place got. */
  | { readonly is: 'refused'; readonly at: number; readonly why: Exclude<Acquired, { is: 'granted' }> }

/** Decides, changes nothing: whoever keeps the rows of all steps has granted all. What is found overdue on the way is found again. */
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
