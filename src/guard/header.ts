/** The token on its way through HTTP: `Holdfast-Fence: name=account%3A42;token=1763733120000000`. */

import { checkName, describe } from '../core/name.js'
import { checkFence, checkToken, type Fence } from './fence.js'

export const fenceHeader = 'holdfast-fence'

/** Headers for a request that writes under a lease: `fetch(url, { headers: fenceHeaders(lease) })`. @throws LeaseLostError */
export function fenceHeaders(fence: Fence): Record<string, string> {
  const { name, token } = checkFence(fence)
  return { [fenceHeader]: `name=${encodeURIComponent(name)};token=${token}` }
}

/** @throws TypeError, RangeError with what is wrong with the header */
export function parseFence(header: string): Fence {
  const [, encoded, digits] = /^\s*name=([^;\s]+);\s*token=(\d{1,16})\s*$/.exec(header) ?? []
  if (encoded === undefined || digits === undefined)
    throw new TypeError(`${fenceHeader} must be 'name=NAME;token=NUMBER', got ${describe(header)}`)
  return { name: checkName(decode(encoded)), token: checkToken(Number(digits)) }
}

function decode(encoded: string): string {
  try {
    return decodeURIComponent(encoded)
  } catch {
    throw new TypeError(
      `${fenceHeader} has the name ${describe(encoded)}, which is not percent-encoded UTF-8`,
    )
  }
}
