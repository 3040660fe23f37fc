/** Plans the faults: kind, time, target and duration. A pure function of the seed, so that a run can be reproduced. */
import { chance } from './chance.js'
import type { Fault } from './store.js'

export interface Planned {
  /** Start in milliseconds since the beginning, and duration. */
  readonly at: number
  readonly lasts: number
  readonly kind: string
  readonly subject: string
  readonly amount: number
}

export interface PlanOptions {
  readonly seed: number
  /** Period in which faults begin and end, in milliseconds. */
  readonly span: number
  readonly ttl: number
  /** Maximum number of overlapping faults. @default 2 */
  readonly overlap?: number
  /** Faults begun per second, on average. @default 3 */
  readonly rate?: number
}

export function createPlan(faults: readonly Fault[], options: PlanOptions): Planned[] {
  const { seed, span, ttl, overlap = 2, rate = 3 } = options
  const random = chance(seed)
  if (faults.length === 0) return []
  const plan: Planned[] = []
  for (let at = 0; ; at += random.between(0, 2000 / rate)) {
    const planned = next(faults, plan, at, random.fork(), ttl)
    if (at >= span) return plan
    if (planned === undefined || at + planned.lasts > span) continue
    const under = plan.filter((other) => end(other) > at)
    const wants = occupied(find(faults, planned), planned.subject)
    const free = under.every((other) =>
      occupied(find(faults, other), other.subject).every((subject) => !wants.includes(subject)),
    )
    if (under.length < overlap && free) plan.push(planned)
  }
}

/** Subjects on which no other fault may act meanwhile. */
export function occupied(fault: Fault | undefined, subject: string): readonly string[] {
  return [subject, ...(fault?.also ?? [])]
}

const find = (faults: readonly Fault[], { kind }: Planned) => faults.find((one) => one.kind === kind)
const end = (planned: Planned) => planned.at + planned.lasts

function next(
  faults: readonly Fault[],
  plan: readonly Planned[],
  at: number,
  random: ReturnType<typeof chance>,
  ttl: number,
): Planned | undefined {
  const due = faults.filter(({ kind, family, apart = 0 }) => {
    const related = (other: Planned) =>
      other.kind === kind || (family !== undefined && find(faults, other)?.family === family)
    return plan.every((other) => !related(other) || end(other) + apart <= at)
  })
  const total = due.reduce((sum, { weight = 1 }) => sum + weight, 0)
  let left = random.next() * total
  const fault = due.find(({ weight = 1 }) => {
    left -= weight
    return left < 0
  })
  if (fault === undefined) return undefined
  const [least, most] = fault.lasts ?? [0.05, 3]
  // Log-uniform: short durations are as likely as ones many times as long.
  const lasts = Math.round(ttl * Math.exp(random.between(Math.log(least), Math.log(most))))
  const { kind } = fault
  return { at: Math.round(at), lasts, kind, subject: random.pick(fault.subjects), amount: random.next() }
}
