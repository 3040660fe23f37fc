/** The guard of a user's own transaction: the store itself checks that the lease holds. */
import { StaleTokenError } from '../../core/errors.js'
import type { LeaseIndex, LeaseKey } from '../kit/lease-index.js'
import type { Compare, OperationResponse, TxnRequest } from './api-types.js'
import { toFailure } from './failure.js'
import type { Desk, GuardedPlace } from './runtime.js'
import { stillMine } from './transactions.js'

export interface GuardTxnResult {
  /** Did your own comparisons succeed? The token is valid in either case. */
  readonly succeeded: boolean
  /** The results of your `success` or `failure` operations, as the gateway returns them. */
  readonly responses: readonly OperationResponse[]
}

function placeOf(held: LeaseIndex<GuardedPlace>, lease: LeaseKey): GuardedPlace {
  const place = held.find(lease)
  if (place === undefined) throw new StaleTokenError(lease.name, lease.token)
  return place
}

/**
 * The comparison names the entry, not the token: from now on the entry is not passed on inside the process, so that it ends with this
 * lease.
 * @throws StaleTokenError when this driver does not hold the lease, or no longer
 */
export function compareOf(held: LeaseIndex<GuardedPlace>, lease: LeaseKey): Compare {
  const place = placeOf(held, lease)
  place.guarded = true
  return stillMine(place.key, place.created)
}

/** @throws StaleTokenError when the lease no longer holds the lock: nothing was written; BackendError */
export async function guardTxn(
  desk: Desk,
  held: LeaseIndex<GuardedPlace>,
  lease: LeaseKey,
  ask: TxnRequest,
): Promise<GuardTxnResult> {
  const mine = compareOf(held, lease)
  const { created } = placeOf(held, lease)
  try {
    const { is } = await desk.client.txn({
      compare: [mine, ...(ask.compare ?? [])],
      success: ask.success ?? [],
      failure: [{ request_range: { key: mine.key } }, ...(ask.failure ?? [])],
    })
    const responses = is.responses ?? []
    if (is.succeeded === true) return { succeeded: true, responses }
    const [own, ...rest] = responses
    if (own?.response_range?.kvs?.[0]?.create_revision === String(created))
      return { succeeded: false, responses: rest }
  } catch (error) {
    throw toFailure(error).error
  }
  throw new StaleTokenError(lease.name, lease.token)
}
