/** Which ballot an attempt asks the servers to vote for. */
import { latestClock, retentionPassed } from './scripts.js'

/** A server, as far as its clock counts. */
export interface ServerClock {
  readonly trusted: boolean
  readonly silent: boolean
  /** Its time in the unit of ballots. */
  readonly wall: number
}

const ascending = (a: number, b: number) => a - b

export class Ballots {
  /** The last time taken from the servers' clocks, so that no time is used twice. */
  #time = 0

  /**
   * Greater than every ballot reported, and not behind the clocks that matter: those of a majority of all servers, taken from the
   * servers that answer. That can depend on a single server whose clock is far ahead; its time is then used, but not kept for the next
   * ballot.
   * @param reported the greatest ballot that a refusal named
   */
  next(nodes: readonly ServerClock[], majority: number, reported: number): number {
    const all: number[] = []
    const answering: number[] = []
    for (const { trusted, wall, silent } of nodes) {
      if (!trusted || wall > latestClock) continue
      all.push(Math.floor(wall))
      if (!silent) answering.push(Math.floor(wall))
    }
    const median = all.sort(ascending)[Math.floor((all.length - 1) / 2)] ?? 0
    const needed = answering.sort(ascending)[majority - 1] ?? 0
    this.#time = Math.max(
      this.#time + 1,
      needed < median + retentionPassed ? Math.max(median, needed) : median,
    )
    return Math.max(this.#time, needed, reported + 1)
  }
}
