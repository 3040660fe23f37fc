/**
 * A process of the world: a clock that runs a little too fast or too slow, an event loop that can stall, a machine that can
 * sleep, a life that can end.
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
  /** The event loop stands still for so many ms of the world: its events come late, its clock goes on. */
  stall(ms: number): void
  /** As a stall, but its monotonic clock stands still too; only the boot clock tells. */
  sleep(ms: number): void
  /** Nothing of it happens any more. */
  kill(): void
  /** Something that happens to this process from outside: late if it stalls, never if it is dead. */
  hears(at: number, fn: () => void): void
  /** Timers it has set and not taken back. */
  readonly timers: number
}

export function makeProcess(world: World, id: number, rate: number, seed: number): SimulatedProcess {
  const chance = createRandom(seed)
  // Processes began at different moments, so their readings have nothing to do with each other.
  const began = 1_000_000 * (id + 1)
  let alive = true
  let standsUntil = 0
  let unnoticed = 0
  let timers = 0
  let ids = 0

  const now = () => began + (world.now - unnoticed) * rate

  /** Calls `fn` at `at`, or when the event loop goes on; never if it does not. */
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
        // Not before the time has come by its own clock, which a sleep that nobody has noticed yet holds back.
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
    // The last digit may become the mark of core/caching.ts, and no two ids may then be the same.
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
      // Nobody reads it before it wakes up, so it may lag behind at once.
      unnoticed += ms
    },
    kill() {
      alive = false
    },
    hears,
  }
}
