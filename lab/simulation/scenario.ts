/** What happens in one simulated schedule, as plain data: made from a seed, printed, shrunk, run again. */
import { chance } from '../faults/chance.js'

export interface Task {
  readonly client: number
  readonly at: number
  readonly name: string
  readonly kind: 'mutex' | 'fair' | 'read' | 'write' | 'permits' | 'all'
  readonly permits: number
  /** 0: a try. */
  readonly wait: number
  readonly holds: number
  readonly ttl: number
  /** Aborted so long after it was asked for. */
  readonly cancelled?: number
  readonly extends?: boolean
}

export interface SimFault {
  readonly at: number
  readonly kind:
    | 'stall'
    | 'sleep'
    | 'kill'
    | 'requests lost'
    | 'replies lost'
    | 'late'
    | 'reset'
    | 'server silent'
  readonly client: number
  readonly lasts: number
}

export interface Scenario {
  readonly seed: number
  /** Milliseconds of each client's clock for each of the server's. */
  readonly rates: readonly number[]
  readonly tasks: readonly Task[]
  readonly faults: readonly SimFault[]
}

const kinds: readonly Task['kind'][] = ['mutex', 'mutex', 'mutex', 'fair', 'read', 'write', 'permits', 'all']
const faultKinds: readonly SimFault['kind'][] = [
  ...(['stall', 'stall', 'sleep', 'kill', 'requests lost', 'replies lost', 'replies lost', 'late'] as const),
  ...(['reset', 'server silent'] as const),
]

export function scenarioOf(seed: number): Scenario {
  const dice = chance(seed)
  const clients = 2 + dice.below(2)
  // A quarter without faults: there order can be judged.
  const faults = dice.next() < 0.25 ? 0 : 1 + dice.below(3)
  // Mostly small: what goes wrong goes wrong among few, and many small schedules are more orders than few big ones.
  const tasks = clients + dice.below(dice.next() < 0.8 ? 3 : 12)
  const span = 20 + dice.below(500)
  return {
    seed,
    rates: Array.from({ length: clients }, () => 0.996 + 0.008 * dice.next()),
    tasks: Array.from({ length: tasks }, () => taskOf(dice, clients, span)),
    faults: Array.from({ length: faults }, () => ({
      at: dice.below(span),
      kind: dice.pick(faultKinds),
      client: dice.below(clients),
      lasts: 5 + dice.below(dice.next() < 0.5 ? 60 : 700),
    })),
  }
}

function taskOf(dice: ReturnType<typeof chance>, clients: number, span: number): Task {
  const kind = dice.pick(kinds)
  const name =
    kind === 'permits' ? 'seats' : kind === 'read' || kind === 'write' ? 'page' : dice.pick(['a', 'b'])
  const way = dice.next()
  return {
    client: dice.below(clients),
    at: dice.below(span),
    name,
    kind,
    permits: 1 + dice.below(3),
    wait: way < 0.15 ? 0 : way < 0.4 ? 10 + dice.below(300) : way < 0.6 ? Number.POSITIVE_INFINITY : 5_000,
    holds: dice.next() < 0.6 ? dice.below(5) : dice.below(500),
    ttl: dice.pick([100, 200, 200, 400]),
    ...(dice.next() < 0.15 && { cancelled: dice.below(100) }),
    ...(dice.next() < 0.1 && { extends: true }),
  }
}

/** Leaves out whatever can be left out so that it still fails. */
export async function shrink(
  scenario: Scenario,
  fails: (smaller: Scenario) => Promise<boolean>,
): Promise<Scenario> {
  let best = scenario
  for (let changed = true; changed; ) {
    changed = false
    for (const smaller of smallerOf(best)) {
      if (!(await fails(smaller))) continue
      best = smaller
      changed = true
      break
    }
  }
  return best
}

function* smallerOf(scenario: Scenario): Generator<Scenario> {
  const { tasks, faults, rates } = scenario
  for (const [i] of faults.entries()) yield { ...scenario, faults: faults.filter((_, other) => other !== i) }
  for (const [i] of tasks.entries()) yield { ...scenario, tasks: tasks.filter((_, other) => other !== i) }
  if (rates.some((rate) => rate !== 1)) yield { ...scenario, rates: rates.map(() => 1) }
  for (const [i, task] of tasks.entries()) {
    const plain: Task = { ...task, cancelled: 0, extends: false, holds: Math.floor(task.holds / 2) }
    const { cancelled: _, extends: __, ...bare } = plain
    if (JSON.stringify(bare) !== JSON.stringify(task)) {
      yield { ...scenario, tasks: tasks.map((one, other) => (other === i ? bare : one)) }
    }
  }
}
