/**
 * A process of the world: a clock that runs a little too fast or too slow, an event loop that can stall, a machine that can
 * sleep, a life that can end.
 */
import type { Clock, Env } from '../../test/support/inside.js'
import { dice, type World } from './world.js'

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
  hears(at: number, fn: () => void): () => void
  /** Timers it has set and not taken back. */
  readonly timers: number
}

export function makeProcess(world: World, id: number, rate: number, seed: number): SimulatedProcess {
  const chance = dice(seed)
  // Processes began at different moments, so their readings have nothing to do with each other.
  const began = 1_000_000 * (id + 1)
  let alive = true
  let standsUntil = 0
  let unnoticed = 0
  let timers = 0
  let ids = 0

  const now = () => began + (world.now - unnoticed) * rate

  const hears: SimulatedProcess['hears'] = (at, fn) => {
    let cancel = () => {}
    const arrive = () => {
      if (!alive) return
      if (world.now < standsUntil) cancel = world.at(standsUntil, arrive)
      else fn()
    }
    cancel = world.at(at, arrive)
    return () => cancel()
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
      let over = false
      let cancel = () => {}
      const end = () => {
        if (!over) timers--
        over = true
      }
      const arm = () => {
        const left = (at - now()) / rate
        // Not before the time has come by its own clock, which a sleep that nobody has noticed yet holds back.
        if (left > 1e-6) {
          cancel = hears(world.now + left, arm)
          return
        }
        end()
        fn()
      }
      cancel = hears(world.now + Math.max(0, (at - now()) / rate), arm)
      return () => {
        end()
        cancel()
      }
    },
    soon(fn) {
      hears(world.now, fn)
    },
  }

  const env: Env = {
    clock,
    id: () => `${id.toString(16).padStart(4, '0')}${(++ids).toString(16).padStart(28, '0')}`,
    random: chance,
    by: `simulated:${id}`,
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
