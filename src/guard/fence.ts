/** What every guard takes: a lease, or the copy of one that was sent over a wire. */
import { types } from 'node:util'
import { StaleTokenError } from '../core/errors.js'
import { checkName, describe } from '../core/name.js'

/** A `Lease` is one. */
export interface Fence {
  /** The lock's name. Do not mix tokens of different names at one resource: they cannot be compared. */
  readonly name: string
  readonly token: number
  /** Called right before the write, if present. */
  assertHeld?(): void
}

/**
 * Checks a fence before anything is sent.
 * @throws TypeError, RangeError for an invalid fence; LeaseLostError for a lease that is known to be lost or released
 */
export function checkFence(fence: Fence): Fence {
  if (typeof fence !== 'object' || fence === null)
    throw new TypeError(`a guard takes a lease or { name, token } as fence, got ${describe(fence)}`)
  checkName(fence.name, "the fence's lock name")
  checkToken(fence.token)
  fence.assertHeld?.()
  return fence
}

export function checkToken(token: unknown): number {
  if (typeof token !== 'number' || !Number.isSafeInteger(token) || token <= 0)
    throw new RangeError(
      `a token is a safe integer greater than 0, got ${describe(token)}; take it from lease.token`,
    )
  return token
}

/**
 * The key or path of a token, or of what it protects.
 * @param what its name, for the message
 * @throws TypeError, RangeError for what a client would send as another key, such as "undefined"
 */
export function checkKey(key: unknown, what: string): string {
  if (typeof key !== 'string')
    throw new TypeError(
      `${what} must be a string, got ${describe(key)}; convert it first, for example String(id)`,
    )
  if (key === '') throw new RangeError(`${what} must not be empty`)
  if (/[\ud800-\udfff]/u.test(key))
    throw new TypeError(`${what} ${describe(key)} has half a surrogate pair; it is not well-formed Unicode`)
  return key
}

/**
 * For query builders and stores without a guard of their own: throws unless the conditional write matched something.
 * @param changed how many rows the statement reports as matched
 * @throws StaleTokenError when none
 */
export function assertFresh(changed: number | bigint | null | undefined, fence: Fence): void {
  if (changed === null || changed === undefined)
    throw new TypeError(
      'assertFresh takes the number of rows that a write matched, got none: does the client report it?',
    )
  if (BigInt(changed) === 0n) throw new StaleTokenError(fence.name, fence.token)
}

/**
 * Stores return tokens as numbers, bigints, text or bytes; where there is no value, 0. @throws TypeError for anything
 * else, and for text that is not a safe integer in decimal digits: each store reads "1e3", " 7" or "0x10" in its own way
 */
export function tokenFrom(value: unknown, where: string): number {
  if (value === null || value === undefined) return 0
  const found = types.isUint8Array(value) ? Buffer.from(value).toString() : value
  if (found === '')
    throw new TypeError(
      `${where} is empty where the newest token belongs; write that token there, or 0 if there was none`,
    )
  const readable =
    typeof found === 'string' ? /^\d+$/.test(found) : typeof found === 'number' || typeof found === 'bigint'
  const token = readable ? Number(found) : Number.NaN
  if (!Number.isSafeInteger(token) || token < 0)
    throw new TypeError(
      `${where} has ${describe(found)} where the newest token belongs: a safe integer, as text in decimal digits; was it written by something else, or converted by the client?`,
    )
  return token
}
