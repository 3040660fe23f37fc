/** The check of the options of a guard over HTTP, and their defaults. */
import { describe } from '../core/name.js'
import { checkOptions } from '../core/options.js'
import type { HttpGuardOptions } from './http.js'

/** In bytes and ms. */
export interface Limits {
  readonly ahead: number
  readonly maxBody: number
  readonly wait: number
  readonly limit: number
}

const known = ['fences', 'name', 'optional', 'ahead', 'maxBody', 'wait', 'limit', 'onError']

/** @throws TypeError, RangeError */
export function checkGuard(options: HttpGuardOptions<never>): Limits {
  if (typeof options?.fences?.admit !== 'function')
    throw new TypeError(
      'a guard over HTTP needs fences: memoryFences(), redisFences(client) or sqlFences(db)',
    )
  checkOptions(options, [])
  for (const key of Object.keys(options))
    if (!known.includes(key))
      throw new TypeError(`a guard over HTTP has no option ${describe(key)}; known are ${known.join(', ')}`)
  const { name, ahead = 3_600_000, maxBody = 2 ** 20, wait = 10_000, limit = 60_000 } = options
  if (typeof name !== 'string' && typeof name !== 'function')
    throw new TypeError(
      `a guard over HTTP needs name: the lock that protects the resource, or a function that returns it for a request; got ${describe(name)}`,
    )
  for (const [what, value] of Object.entries({ ahead, maxBody, wait, limit }))
    if (typeof value !== 'number' || !(value >= 0))
      throw new RangeError(`${what} must be a number of at least 0, got ${describe(value)}`)
  const { optional = false, onError } = options
  if (typeof optional !== 'boolean')
    throw new TypeError(`optional must be true or false, got ${describe(optional)}`)
  if (onError !== undefined && typeof onError !== 'function')
    throw new TypeError(`onError must be a function, got ${describe(onError)}`)
  return { ahead, maxBody, wait, limit }
}
