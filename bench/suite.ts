/** The amount of work. The published tables use `full`; `quick` is for a look during development. */
import type { Effort } from './rounds.js'

export interface Scale {
  readonly effort: Effort
  /** In one process on one name. */
  readonly waiters: number
  /** Held at once, for the heap. */
  readonly leases: number
  /** Between processes, per run. */
  readonly handOvers: number
  /** Number of holders killed. */
  readonly kills: number
  /** Processes that want a lock at once. */
  readonly processes: number
  /** Lengths of the queues whose hand-offs are counted. */
  readonly lines: readonly number[]
  /** Milliseconds of observation while everybody waits. */
  readonly still: number
  /** Milliseconds of a closed loop. */
  readonly competing: number
  /** Milliseconds of holding many. */
  readonly holding: number
  /** Milliseconds after which a contender without a finished pair counts as stuck. */
  readonly stuckAfter: number
  /** Waiters in the longest queue. */
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
