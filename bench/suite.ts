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
}

export const full: Scale = {
  effort: { rounds: 15, slice: 150 },
  waiters: 1000,
  leases: 5000,
  handOvers: 2000,
  kills: 25,
}

export const quick: Scale = {
  effort: { rounds: 5, slice: 60 },
  waiters: 1000,
  leases: 5000,
  handOvers: 500,
  kills: 6,
}
