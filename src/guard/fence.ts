/** What every guard takes: a lease, or the copy of one that was sent over a wire. */
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
 * For query builders and stores without a guard of their own: throws unless the conditional write matched something.
 * @param changed how many rows the statement reports as matched
 * @throws StaleTokenError when none
 */
export function assertFresh(changed: number | bigint | null | undefined, fence: Fence): void {
  if (changed === null || changed === undefined)
    throw new TypeError(
      'assertFresh takes the number of rows that a write matched, got none: does the client tell it?',
    )
  if (BigInt(changed) === 0n) throw new StaleTokenError(fence.name, fence.token)
}

/**
 * Stores return tokens as numbers, bigints or text; where there is no value, 0. @throws TypeError for anything else,
 * and for empty text: compared as it is, it would let stale tokens in
 */
export function tokenFrom(value: unknown, where: string): number {
  if (value === null || value === undefined) return 0
  if (typeof value === 'string' && value.trim() === '')
    throw new TypeError(
      `${where} is empty where the newest token belongs; write that token there, or 0 if there was none`,
    )
  const token = ['number', 'bigint', 'string'].includes(typeof value) ? Number(value) : Number.NaN
  if (Number.isNaN(token))
    throw new TypeError(
      `${where} has ${describe(value)} where the newest token belongs; was it written by something else, or converted by the client?`,
    )
  return token
}
