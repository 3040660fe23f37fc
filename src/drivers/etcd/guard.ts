/** The guard of a user's own transaction: the store itself checks that the lease holds. */
import { StaleTokenError } from '../../core/errors.js'
import type { LeaseIndex, LeaseKey } from '../kit/lease-index.js'
import type { Compare, OperationResponse, TxnRequest } from './api-types.js'
import { toFailure } from './failure.js'
import type { GuardedEntry, Runtime } from './runtime.js'
import { stillMine } from './transactions.js'

export interface GuardTxnResult {
  /** Did your own comparisons succeed? The token is valid in either case. */
  readonly succeeded: boolean
  /** The results of your `success` or `failure` operations, as the gateway returns them. */
  readonly responses: readonly OperationResponse[]
}

function findEntry(held: LeaseIndex<GuardedEntry>, lease: LeaseKey): GuardedEntry {
  const entry = held.find(lease)
  if (entry === undefined) throw new StaleTokenError(lease.name, lease.token)
  return entry
}

/**
 * The comparison names the entry, not the token: from now on the entry is not passed on inside the process, so that it ends with this
 * lease.
 * @throws StaleTokenError when this driver does not hold the lease, or no longer
 */
export function leaseCompare(held: LeaseIndex<GuardedEntry>, lease: LeaseKey): Compare {
  const entry = findEntry(held, lease)
  entry.guarded = true
  return stillMine(entry.key, entry.created)
}

/** @throws StaleTokenError when the lease no longer holds the lock: nothing was written; BackendError */
export async function guardTxn(
  runtime: Runtime,
  held: LeaseIndex<GuardedEntry>,
  lease: LeaseKey,
  ask: TxnRequest,
): Promise<GuardTxnResult> {
  const mine = leaseCompare(held, lease)
  const { created } = findEntry(held, lease)
  try {
    const { is } = await runtime.client.txn({
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
