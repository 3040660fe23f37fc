/**
 * Deadman timer: acts if the lock process has not moved the deadline for the end of the command before that deadline passes.
 */
import { machineTime } from './messages.js'

export interface DeadmanTimer {
  /** The deadline, by {@link machineTime}, until a later call moves it. Infinity: never. */
  arm(killBy: number): void
  stop(): void
}

/** A timer that fires later than this, in ms, was delayed because this process was paused. */
const stallThreshold = 50
const recheckDelay = 10
/** Node fires a longer timer at once. */
const maxTimer = 2 ** 31 - 1

export function createDeadmanTimer(act: () => void): DeadmanTimer {
  let timer: NodeJS.Timeout | undefined
  const wait = (killBy: number, startledBefore: boolean) => {
    clearTimeout(timer)
    if (killBy === Number.POSITIVE_INFINITY) return
    const left = Math.min(Math.max(0, killBy - machineTime()), maxTimer)
    timer = setTimeout(() => {
      const late = machineTime() - killBy
      if (late < 0) return wait(killBy, false)
      if (late <= stallThreshold || startledBefore) return act()
      // Timers run before messages: proofs that the lock process sent while this process was paused have yet to be read.
      timer = setTimeout(() => wait(killBy, true), recheckDelay)
    }, left)
  }
  return { arm: (killBy) => wait(killBy, false), stop: () => clearTimeout(timer) }
}
