/** Is a token that of a present holder? Chubby's sequencer, asked of the store. */
import type { Driver, Holder } from './driver.js'
import { checkName, describe } from './name.js'
import { tokenReserve } from './token.js'

/** @throws TypeError, RangeError for what is none; BackendError */
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
  return holders.some((holder) => holder.expiresIn > 0 && isOf(token, holder))
}

/**
 * A lock that is passed on inside its process goes through the tokens reserved for it, which the store does not hear of. No other grant
 * has one of these: whatever was granted before is below, and whatever comes after does not exist yet.
 */
function isOf(token: number, holder: Holder): boolean {
  if (holder.mode.kind !== 'exclusive') return token === holder.token
  return token >= holder.token && token < holder.token + tokenReserve
}
