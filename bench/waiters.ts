/**
 * Many waiters on one name in one process: each acquires and releases again and again, so all but one are always in
 * line, and every acquisition but the first of a slice is handed over by the release before it.
 */
import type { BareQueue } from './floors/in-process.js'
import { type Effort, type Rates, takeTurns } from './rounds.js'

/** What is needed of a lock here. */
export interface Handed {
  acquire(): Promise<{ readonly token: number; release(): Promise<unknown> }>
}

export interface HandOvers {
  readonly rates: Rates<'ours' | 'floor'>
  readonly counts: Readonly<Record<string, number>>
}

/** Slices are counted in acquisitions per waiter. Every hand-over is counted, and its token checked to have grown. */
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
