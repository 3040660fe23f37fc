/** How much is done. The numbers of `full` are those of the published tables; `quick` is for a look while working. */
import type { Effort } from './rounds.js'

export interface Scale {
  readonly effort: Effort
  /** In one process on one name. */
  readonly waiters: number
  /** Held at once, for the heap. */
  readonly leases: number
  /** Between processes, per run. */
  readonly handOvers: number
  /** Holders killed. */
  readonly kills: number
  /** That want a lock at once. */
  readonly processes: number
  /** Lengths of the lines whose hand-offs are counted. */
  readonly lines: readonly number[]
  /** Milliseconds to look on while everybody waits. */
  readonly still: number
  /** Milliseconds of a closed loop. */
  readonly competing: number
  /** Milliseconds of holding many. */
  readonly holding: number
  /** Milliseconds after which a contender that has finished nothing is taken for stuck. */
  readonly stuckAfter: number
  /** Waiters in the longest line. */
  readonly longLine: number
}

export const full: Scale = {
  effort: { rounds: 15, slice: 150 },
  waiters: 1000,
  leases: 5000,
  handOvers: 2000,
  kills: 25,
  processes: 4,
  lines: [2, 16, 128, 1000],
  still: 2000,
  competing: 5000,
  holding: 60_000,
  stuckAfter: 12_000,
  longLine: 10_000,
}

export const quick: Scale = {
  effort: { rounds: 5, slice: 60 },
  waiters: 1000,
  leases: 5000,
  handOvers: 500,
  kills: 6,
  processes: 4,
  lines: [2, 16, 128, 1000],
  still: 500,
  competing: 1500,
  holding: 15_000,
  stuckAfter: 12_000,
  longLine: 10_000,
}
