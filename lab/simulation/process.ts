/**
 * A process of the world: a clock that runs slightly fast or slow, an event loop that can stall, a machine that can
 * sleep, and a process that can die.
 */
import type { Clock, Env } from '../../test/support/inside.js'
import { createRandom, type ScheduledEvent, type World } from './world.js'

export interface SimulatedProcess {
  readonly id: number
  readonly clock: Clock
  readonly env: Env
  readonly alive: boolean
  /** How much faster its clock runs than the world: 1 = just as fast. */
  readonly rate: number
  /** The event loop stalls for this many ms of the world: its events are late, its clock continues. */
  stall(ms: number): void
  /** Like a stall, but its monotonic clock stops too; only the boot clock shows it. */
  sleep(ms: number): void
  /** The process dies: none of its events happens any more. */
  kill(): void
  /** An event from outside: late if the process stalls, never if it is dead. */
  hears(at: number, fn: () => void): void
  /** Pending timers that it has not cleared. */
  readonly timers: number
}

export function makeProcess(world: World, id: number, rate: number, seed: number): SimulatedProcess {
  const chance = createRandom(seed)
  // Processes started at different times, so their readings are unrelated.
  const began = 1_000_000 * (id + 1)
  let alive = true
  let standsUntil = 0
  let unnoticed = 0
  let timers = 0
  let ids = 0

  const now = () => began + (world.now - unnoticed) * rate

  /** Calls `fn` at `at`, or when the event loop resumes; never if it does not. */
  const hears: SimulatedProcess['hears'] = (at, fn) => {
    const arrive = () => {
      if (!alive) return
      if (world.now < standsUntil) world.at(standsUntil, arrive)
      else fn()
    }
    world.at(at, arrive)
  }

  const clock: Clock = {
    now,
    noticeSleep() {
      const slept = unnoticed * rate
      unnoticed = 0
      return slept
    },
    at(at, fn) {
      timers++
      const arrive = () => {
        if (!alive) return
        const left = (at - now()) / rate
        if (world.now < standsUntil) coming = world.at(standsUntil, arrive)
        // Not before its own clock reaches that time; an unnoticed sleep delays that clock.
        else if (left > 1e-6) coming = world.at(world.now + left, arrive)
        else {
          coming = undefined
          timers--
          fn()
        }
      }
      let coming: ScheduledEvent | undefined = world.at(world.now + Math.max(0, (at - now()) / rate), arrive)
      return () => {
        if (coming === undefined) return
        coming.cancel()
        coming = undefined
        timers--
      }
    },
    soon(fn) {
      hears(world.now, fn)
    },
    shortly(fn) {
      let cancelled = false
      hears(world.now, () => cancelled || fn())
      return () => {
        cancelled = true
      }
    },
  }

  const prefix = id.toString(16).padStart(4, '0')
  const env: Env = {
    clock,
    // core/caching.ts may replace the last digit with its mark, and ids must stay unique even then.
    id: () => `${prefix}${(++ids).toString(16).padStart(27, '0')}0`,
    random: chance,
    client: `simulated:${id}`,
  }

  return {
    id,
    clock,
    env,
    rate,
    get alive() {
      return alive
    },
    get timers() {
      return timers
    },
    stall(ms) {
      standsUntil = Math.max(standsUntil, world.now + ms)
    },
    sleep(ms) {
      if (world.now < standsUntil) return
      standsUntil = world.now + ms
      // Nobody reads it before the machine wakes up, so it may fall behind immediately.
      unnoticed += ms
    },
    kill() {
      alive = false
    },
    hears,
  }
}
