/** Fairness under constant contention: 64 workers in four processes, in a closed loop. */
import { randomUUID } from 'node:crypto'
import type { Share } from '../workers/redis-member.js'
import type { WorkerProcesses } from './hand-off.js'

export interface Fairness {
  /** (Σx)² ÷ n Σx² over each worker's grants: 1 if all got the same number, 1 ÷ n if one got all. */
  readonly jain: number
  readonly perSecond: number
  /** Workers without a grant. */
  readonly starved: number
  /** Grants to a worker while another had been waiting for at least `margin` ms longer. */
  readonly passedOver: number
  /** Longest wait in ms, and as a multiple of the mean. */
  readonly longest: number
  readonly longestOfMean: number
}

/** Two requests this close together, in ms, may reach the server in either order. */
export const margin = 50

export async function compete(
  members: WorkerProcesses,
  workers: number,
  hold: number,
  lasting: number,
): Promise<Fairness> {
  const key = `bench:fair:${randomUUID()}`
  const each = workers / members.length
  const shares = (
    await Promise.all(members.map((member) => member.ask('compete', key, each, hold, lasting)))
  ).flat()
  return summarize(shares, lasting)
}

export function summarize(shares: readonly Share[], lasting: number): Fairness {
  const taken = shares.map(({ taken }) => taken)
  const total = taken.reduce((a, b) => a + b, 0)
  const squares = taken.reduce((a, b) => a + b * b, 0)
  const waits = shares.flatMap(({ waits }) => waits)
  const times = waits.map(([asked, granted]) => granted - asked)
  const longest = Math.max(...times)
  return {
    jain: total ** 2 / (shares.length * squares),
    perSecond: total / (lasting / 1000),
    starved: taken.filter((count) => count === 0).length,
    passedOver: passedOver(waits),
    longest,
    longestOfMean: longest / (times.reduce((a, b) => a + b, 0) / times.length),
  }
}

/** In order of grants: the number of grants to a worker that had asked later than one still waiting. */
function passedOver(waits: readonly (readonly [asked: number, granted: number])[]): number {
  const inOrder = waits.toSorted((a, b) => a[1] - b[1])
  let count = 0
  // Scanning from the end: the earliest request among those granted later.
  let earliest = Number.POSITIVE_INFINITY
  for (const [asked] of inOrder.toReversed()) {
    if (earliest < asked - margin) count++
    earliest = Math.min(earliest, asked)
  }
  return count
}
