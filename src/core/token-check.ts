/** Does a token belong to a present holder? Chubby's sequencer check, asked of the store. */
import { mayBeCached } from './caching.js'
import type { Holder } from './driver.js'
import type { Engine } from './engine.js'
import { UnsupportedError } from './errors.js'
import { localToken } from './local-status.js'
import { checkName, describe, quote } from './name.js'
import { tokenReserve } from './token.js'

/**
 * @throws TypeError, RangeError for an invalid lease or token; UnsupportedError where another process may keep the lock
 * cached; BackendError
 */
export async function isCurrent(
  { driver, queues }: Engine,
  fence: { readonly name: string; readonly token: number },
): Promise<boolean> {
  if (typeof fence !== 'object' || fence === null)
    throw new TypeError(`check takes a lease or { name, token }, got ${describe(fence)}`)
  const { name, token } = fence
  checkName(name)
  if (typeof token !== 'number' || !Number.isSafeInteger(token) || token <= 0)
    throw new RangeError(`a token is a safe integer greater than 0, got ${describe(token)}`)
  const { holders } = await driver.inspect(name)
  return holders.some((holder) => {
    if (holder.expiresIn <= 0) return false
    if (!mayBeCached(holder.attempt)) return matches(token, holder)
    // Only the process that has the grant knows which token of the reserve is in use, if any.
    const queue = queues.get(name)
    const here = queue && localToken(queue, holder.attempt)
    if (here === undefined)
      throw new UnsupportedError(
        driver.name,
        `check of ${quote(name)}, which another process may keep cached (linger),`,
        'let the resource remember the greatest token, or leave out linger for this lock',
      )
    return here === token
  })
}

/**
 * Local hand-overs use up the tokens reserved for the grant, and the store does not learn of them. No other grant has
 * one of these tokens: those of earlier grants are below, and those of later grants do not exist yet.
 */
function matches(token: number, holder: Holder): boolean {
  if (holder.mode.kind !== 'exclusive') return token === holder.token
  return token >= holder.token && token < holder.token + tokenReserve
}
