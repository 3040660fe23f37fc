/** The redis driver with one mistake: a token is what the clock of the server shows, and nothing else. */
import type { DriverFactory } from 'holdfast'
import type { Grant } from 'holdfast/driver'
import type { Canary } from './mistakes.js'

/** @param time what the server's clock shows, in µs since 1970 */
export type Breaking = (factory: DriverFactory, time: () => Promise<number>) => DriverFactory

export const clockIsToken: Canary = {
  mistake: 'the token is what the clock of the server shows, and nothing is remembered of earlier ones',
  caughtBy: ['tokens'],
  under: ['clock back', 'flush'],
  breaking: tokenFromClock,
}

function tokenFromClock(...[factory, time]: Parameters<Breaking>): DriverFactory {
  return (env) => {
    const driver = factory(env)
    return {
      ...driver,
      traits: { ...driver.traits, acquireMany: false },
      acquire: async (claim, wait) => {
        const grant = await driver.acquire(claim, wait)
        if (grant === undefined) return undefined
        const token = await time()
        return withToken(grant, token)
      },
    }
  }
}

/** Nothing is reserved for others in the process. */
function withToken(grant: Grant, token: number): Grant {
  return new Proxy(grant, {
    get: (target, key) => {
      if (key === 'token') return token
      if (key === 'nextReservedToken') return undefined
      const value: unknown = Reflect.get(target, key)
      return typeof value === 'function' ? value.bind(target) : value
    },
    set: (target, key, value) => Reflect.set(target, key, value),
  })
}
