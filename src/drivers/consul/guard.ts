/** The guard of a user's own transaction: the store itself checks that the lease holds. */
import { outcomeUnknown, StaleTokenError } from '../../core/errors.js'
import { quote } from '../../core/name.js'
import type { LeaseIndex, LeaseKey } from '../kit/lease-index.js'
import type { KeyValue, Operation } from './api-types.js'
import type { TxnResult } from './client.js'
import { toFailure } from './failure.js'
import type { LeaseCondition, Runtime } from './runtime.js'

export interface GuardTxnResult {
  /** Were your own operations carried out? The token is valid in either case. */
  readonly succeeded: boolean
  /** The keys read and written, as they are now; empty when not carried out. */
  readonly values: readonly KeyValue[]
  /** Consul's message about the refused operation. */
  readonly error: string
}

/** @throws StaleTokenError when this driver does not hold the lease, or no longer */
export function findCondition(held: LeaseIndex<LeaseCondition>, lease: LeaseKey): Operation {
  const hold = held.find(lease)
  if (hold === undefined) throw new StaleTokenError(lease.name, lease.token)
  return hold.condition
}

/**
 * @throws StaleTokenError when the lease no longer holds the lock: nothing was written; BackendError, with `outcome: 'unknown'` when the
 * reply was lost, so that the operations may or may not have been carried out
 */
export async function guardTxn(
  runtime: Runtime,
  lease: LeaseKey,
  operations: readonly Operation[],
): Promise<GuardTxnResult> {
  for (;;) {
    const mine = findCondition(runtime.held, lease)
    const reply = await send(runtime, lease, [mine, ...operations])
    if (reply.committed) {
      const values = [...reply.found.values()].filter(({ Key }) => Key !== mine.KV.Key)
      return { succeeded: true, values, error: '' }
    }
    if (reply.refused !== 0) return { succeeded: false, values: [], error: reply.reason }
    // If the hold was moved to a longer session meanwhile, its index has changed: retry with the new one.
    const hold = runtime.held.find(lease)
    await hold?.settled()
    const now = hold?.condition
    if (now === undefined || now.KV.Index === mine.KV.Index)
      throw new StaleTokenError(lease.name, lease.token)
  }
}

async function send(
  { client, env: { clock } }: Runtime,
  { name }: LeaseKey,
  operations: readonly Operation[],
): Promise<TxnResult> {
  const from = clock.now()
  const unknown = (cause: Error) =>
    outcomeUnknown('consul', `the transaction under ${quote(name)}`, clock.now() - from, cause)
  const result = await client.txn(operations).catch((thrown: unknown) => {
    const { error, ambiguous } = toFailure(thrown)
    throw ambiguous ? unknown(error) : error
  })
  // The earlier try may itself have changed what the later one compared.
  if (result.repeated && !result.committed)
    throw unknown(new Error('an earlier try had no reply, and a later one was refused'))
  return result
}
