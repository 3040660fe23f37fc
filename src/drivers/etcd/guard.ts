/** The guard of a user's own transaction: the store itself checks that the lease holds. */
import { outcomeUnknown, StaleTokenError } from '../../core/errors.js'
import { quote } from '../../core/name.js'
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

/**
 * @throws StaleTokenError when the lease no longer holds the lock: nothing was written; BackendError, with `outcome: 'unknown'` when the
 * reply was lost, so that the operations may or may not have been carried out
 */
export async function guardTxn(
  runtime: Runtime,
  held: LeaseIndex<GuardedEntry>,
  lease: LeaseKey,
  ask: TxnRequest,
): Promise<GuardTxnResult> {
  const mine = leaseCompare(held, lease)
  const { created } = findEntry(held, lease)
  const { client } = runtime
  const from = client.clock.now()
  const unknown = (cause: Error) =>
    outcomeUnknown('etcd', `the transaction under ${quote(lease.name)}`, client.clock.now() - from, cause)
  const request = {
    compare: [mine, ...(ask.compare ?? [])],
    success: ask.success ?? [],
    failure: [{ request_range: { key: mine.key } }, ...(ask.failure ?? [])],
  }
  const { is, repeated } = await client.txn(request).catch((thrown: unknown) => {
    const { error, ambiguous } = toFailure(thrown)
    throw ambiguous ? unknown(error) : error
  })
  const responses = is.responses ?? []
  if (is.succeeded === true) return { succeeded: true, responses }
  // The earlier try may itself have changed what the later one compared.
  if (repeated) throw unknown(new Error('an earlier try had no reply, and a later one was refused'))
  const [own, ...rest] = responses
  if (own?.response_range?.kvs?.[0]?.create_revision === String(created))
    return { succeeded: false, responses: rest }
  throw new StaleTokenError(lease.name, lease.token)
}
