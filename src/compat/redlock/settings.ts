/** The settings of the `redlock` package, checked. */
import { describe } from './describe.js'

export interface Settings {
  /** The share of `duration` that clocks may drift apart; `expiration` is earlier by it. @default 0.01 */
  readonly driftFactor: number
  /** Attempts after the first one; -1: no limit. With `retryDelay` it gives how long `acquire` waits. @default 10 */
  readonly retryCount: number
  /** Milliseconds between attempts. Waiting is not polling here: only the product with `retryCount` counts. @default 200 */
  readonly retryDelay: number
  /** Accepted, and has no effect: a released lock is passed to one waiter, so there is no herd to spread. @default 100 */
  readonly retryJitter: number
  /**
   * Checked as the package checks it, and has no other effect: `using` renews after a third of `duration`. @default 500
   */
  readonly automaticExtensionThreshold: number
  /**
   * Not in the package: the longest `duration` of any process, in ms. A server that may have forgotten locks grants
   * nothing for that long. Not read where a driver is given. @default 60_000
   */
  readonly maxTtl: number
}

const defaults: Settings = {
  driftFactor: 0.01,
  retryCount: 10,
  retryDelay: 200,
  retryJitter: 100,
  automaticExtensionThreshold: 500,
  maxTtl: 60_000,
}

/** @throws TypeError for an unknown setting, or one that is no number */
export function toSettings(given: Partial<Settings> = {}, base: Settings = defaults): Settings {
  if (typeof given !== 'object' || given === null)
    throw new TypeError(`Redlock takes settings as an object, got ${describe(given)}`)
  for (const [key, value] of Object.entries(given)) {
    if (!(key in defaults))
      throw new TypeError(
        `Redlock: unknown setting ${describe(key)}; known are ${Object.keys(defaults).join(', ')}`,
      )
    const least = key === 'retryCount' ? -1 : 0
    const most = key === 'retryCount' ? Number.POSITIVE_INFINITY : Number.MAX_SAFE_INTEGER
    if (value !== undefined && !(typeof value === 'number' && value >= least && value <= most))
      throw new TypeError(`Redlock: ${key} must be a finite number of 0 or more, got ${describe(value)}`)
  }
  const set = Object.entries(given).filter(([, value]) => value !== undefined)
  return { ...base, ...Object.fromEntries(set) }
}

/** How long the package would go on trying, in ms. */
export function totalWait({ retryCount, retryDelay }: Settings): number {
  return retryCount < 0 || retryCount === Number.POSITIVE_INFINITY
    ? Number.POSITIVE_INFINITY
    : retryCount * retryDelay
}
