/** The guard of a user's own transaction: the store itself checks that the lease holds. */
import { StaleTokenError } from '../../core/errors.js'
import type { LeaseIndex, LeaseKey } from '../kit/lease-index.js'
import type { Compare, OperationReply, TxnAsk } from './api-types.js'
import { toFailure } from './failure.js'
import type { Desk } from './runtime.js'
import { stillMine } from './transactions.js'

export interface GuardedReply {
  /** Did your own comparisons succeed? The token is valid in either case. */
  readonly succeeded: boolean
  /** The results of your `success` or `failure` operations, as the gateway returns them. */
  readonly responses: readonly OperationReply[]
}

/** @throws StaleTokenError when this driver does not hold the lease, or no longer */
export function compareOf(keys: LeaseIndex<string>, lease: LeaseKey): Compare {
  const key = keys.find(lease)
  if (key === undefined) throw new StaleTokenError(lease.name, lease.token)
  return stillMine(key, lease.token)
}

/** @throws StaleTokenError when the lease no longer holds the lock: nothing was written; BackendError */
export async function guardTxn(
  desk: Desk,
  keys: LeaseIndex<string>,
  lease: LeaseKey,
  ask: TxnAsk,
): Promise<GuardedReply> {
  const mine = compareOf(keys, lease)
  try {
    const { is } = await desk.client.txn({
      compare: [mine, ...(ask.compare ?? [])],
      success: ask.success ?? [],
      failure: [{ request_range: { key: mine.key } }, ...(ask.failure ?? [])],
    })
    const responses = is.responses ?? []
    if (is.succeeded === true) return { succeeded: true, responses }
    const [own, ...rest] = responses
    if (own?.response_range?.kvs?.[0]?.create_revision === String(lease.token))
      return { succeeded: false, responses: rest }
  } catch (error) {
    throw toFailure(error).error
  }
  throw new StaleTokenError(lease.name, lease.token)
}
