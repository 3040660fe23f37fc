/** The driver: `txns.ts` says what the store does, `kit/line.ts` decides, `waiter.ts` and `hold.ts` ask, this hands out. */
import type { DriverFactory, Traits } from '../../core/driver.js'
import { cellsOf } from './cells.js'
import { Desk } from './desk.js'
import { forceRelease, inspect, list } from './inspect.js'
import { type ConsulOptions, longestTtl, settingsOf } from './options.js'
import { troubleOf } from './trouble.js'
import { Waiter } from './waiter.js'

export interface ConsulTraits extends Traits {
  readonly modes: readonly ['exclusive', 'shared', 'permits']
  readonly fair: true
  readonly shared: true
  readonly cells: true
}

/**
 * Locks in Consul, over the HTTP API of an agent.
 * @throws TypeError, RangeError for bad options, before any I/O
 */
export function consul(options: ConsulOptions): DriverFactory<ConsulTraits> {
  const settings = settingsOf(options)
  const traits: ConsulTraits = Object.freeze({
    modes: ['exclusive', 'shared', 'permits'] as const,
    fair: true,
    minTtl: settings.minTtl,
    shared: true,
    // The ttl of a session, with its tenth more, is a day at the most.
    maxLockDelay: longestTtl / 2,
    cells: true,
  })
  return (env) => {
    const desk = new Desk(settings, env)
    const told = async <T>(work: () => Promise<T>): Promise<T> => {
      desk.assertOpen()
      try {
        return await work()
      } catch (error) {
        throw troubleOf(error).error
      }
    }
    return {
      name: 'consul',
      traits,
      async acquire(claim, wait) {
        desk.assertOpen()
        const waiter = new Waiter(desk, claim, wait)
        return wait.remaining() <= 0 ? waiter.once() : waiter.long()
      },
      inspect: (name) => told(() => inspect(desk, name)),
      list: (prefix) => told(() => list(desk, prefix)),
      forceRelease: (name) => told(() => forceRelease(desk, name)),
      cells: cellsOf(desk),
      close: () => desk.close(),
    }
  }
}
