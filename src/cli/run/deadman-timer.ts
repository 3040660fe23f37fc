/**
 * Deadman timer: acts if the keeper has not moved the deadline for the end of the command before that deadline passes.
 */
import { machineTime } from './messages.js'

export interface Understudy {
  /** The deadline, by {@link machineTime}, until a later call moves it. Infinity: never. */
  expect(killBy: number): void
  stop(): void
}

/** A timer that fires later than this, in ms, was delayed because this process stood still. */
const startled = 50
const secondLookAfter = 10
/** Node fires a longer timer at once. */
const longestTimer = 2 ** 31 - 1

export function understudy(act: () => void): Understudy {
  let timer: NodeJS.Timeout | undefined
  const wait = (killBy: number, startledBefore: boolean) => {
    clearTimeout(timer)
    if (killBy === Number.POSITIVE_INFINITY) return
    const left = Math.min(Math.max(0, killBy - machineTime()), longestTimer)
    timer = setTimeout(() => {
      const late = machineTime() - killBy
      if (late < 0) return wait(killBy, false)
      if (late <= startled || startledBefore) return act()
      // Timers run before messages: proofs the keeper sent while we stood still have yet to be read.
      timer = setTimeout(() => wait(killBy, true), secondLookAfter)
    }, left)
  }
  return { expect: (killBy) => wait(killBy, false), stop: () => clearTimeout(timer) }
}
