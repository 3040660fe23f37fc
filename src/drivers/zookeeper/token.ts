/**
 * The token is the id of the transaction that created the node: the leader's epoch in the upper 32 bits, a counter in the lower.
 * It grows across all nodes, leaders and restarts of an ensemble, and follows the order of the queue.
 *
 * A JavaScript number is exact up to 2^53, that is for 2^21 epochs: two million elections. Beyond 2^53, two grants could get the
 * same token, so the driver refuses to grant.
 */
import { BackendError } from '../../core/errors.js'

/** @throws BackendError beyond 2^53 */
export function toToken(czxid: bigint): number {
  if (czxid > BigInt(Number.MAX_SAFE_INTEGER)) {
    throw new BackendError(
      'zookeeper',
      `transaction 0x${czxid.toString(16)} is beyond what a token can tell apart (2^53); the ensemble has had more than two million leaders, move the locks to a new one`,
    )
  }
  return Number(czxid)
}
