/** Does a token belong to a present holder? Chubby's sequencer check, asked of the store. */
import type { Driver, Holder } from './driver.js'
import { checkName, describe } from './name.js'
import { tokenReserve } from './token.js'

/** @throws TypeError, RangeError for an invalid lease or token; BackendError */
export async function isCurrent(
  driver: Driver,
  fence: { readonly name: string; readonly token: number },
): Promise<boolean> {
  if (typeof fence !== 'object' || fence === null)
    throw new TypeError(`check takes a lease or { name, token }, got ${describe(fence)}`)
  const { name, token } = fence
  checkName(name)
  if (typeof token !== 'number' || !Number.isSafeInteger(token) || token <= 0)
    throw new RangeError(`a token is a safe integer greater than 0, got ${describe(token)}`)
  const { holders } = await driver.inspect(name)
  return holders.some((holder) => holder.expiresIn > 0 && matches(token, holder))
}

/**
 * Local hand-overs use up the tokens reserved for the grant, and the store does not learn of them. No other grant has
 * one of these tokens: those of earlier grants are below, and those of later grants do not exist yet.
 */
function matches(token: number, holder: Holder): boolean {
  if (holder.mode.kind !== 'exclusive') return token === holder.token
  return token >= holder.token && token < holder.token + tokenReserve
}
