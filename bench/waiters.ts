/**
 * Many waiters on one name in one process: each acquires and releases repeatedly, so all but one are always queued, and every acquisition
 * except the first of a slice is handed over by the preceding release.
 */
import type { BareQueue } from './floors/in-process.js'
import { type Effort, type Rates, takeTurns } from './rounds.js'

/** The part of a lock used here. */
export interface Handed {
  acquire(): Promise<{ readonly token: number; release(): Promise<unknown> }>
}

export interface HandOvers {
  readonly rates: Rates<'ours' | 'floor'>
  readonly counts: Readonly<Record<string, number>>
}

/** A slice is measured in acquisitions per waiter. Counts every hand-over, and checks that its token has grown. */
export async function handOvers(
  lock: Handed,
  queue: BareQueue,
  waiters: number,
  effort: Effort,
): Promise<HandOvers> {
  let last = 0
  let handed = 0
  const ours = async (times: number) => {
    for (let i = 0; i < times; i++) {
      const lease = await lock.acquire()
      if (lease.token <= last) throw new Error(`token ${lease.token} came after ${last}`)
      last = lease.token
      handed++
      await lease.release()
    }
  }
  const floor = async (times: number) => {
    for (let i = 0; i < times; i++) {
      await queue.acquire()
      queue.release()
    }
  }
  const all = (one: (times: number) => Promise<void>) => async (times: number) => {
    await Promise.all(Array.from({ length: waiters }, () => one(times)))
  }
  const rounds = await takeTurns({ ours: all(ours), floor: all(floor) }, effort)
  const perSecond = (rates: readonly number[]) => rates.map((rate) => rate * waiters)
  return {
    rates: { ours: perSecond(rounds.ours), floor: perSecond(rounds.floor) },
    counts: { 'hand-overs': handed },
  }
}
