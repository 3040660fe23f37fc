/** The guard of a user's own `multi`: the ensemble itself checks that the hold's node exists. */
import { BackendError, outcomeUnknown, StaleTokenError } from '../../core/errors.js'
import { quote } from '../../core/name.js'
import type { ZookeeperOperation } from '../../guard/zookeeper.js'
import type { LeaseKey } from '../kit/lease-index.js'
import { isCode, toFailure } from './failure.js'
import type { Hold } from './hold.js'
import type { Runtime } from './runtime.js'
import { codes, flags, MultiError, multi, type Part } from './session/protocol.js'

/** An operation of a `multi`. Paths are absolute, not relative to the chroot; version -1: any. */
export type MultiOperation = ZookeeperOperation

type Check = Extract<MultiOperation, { type: 'check' }>

function findHold(runtimes: Iterable<Runtime>, { name, token }: LeaseKey): { runtime: Runtime; hold: Hold } {
  for (const runtime of runtimes) {
    for (const hold of runtime.holds) if (hold.token === token && hold.name === name) return { runtime, hold }
  }
  throw new StaleTokenError(name, token)
}

/** @throws StaleTokenError when none of these drivers holds the lease, or no longer */
export function leaseCheck(runtimes: Iterable<Runtime>, lease: LeaseKey): Check {
  // No other hold ever has a node with this path, because the path contains the attempt id.
  const { hold } = findHold(runtimes, lease)
  hold.guarded = true
  return { type: 'check', path: hold.path, version: -1 }
}

/**
 * @throws StaleTokenError when the lease no longer holds the lock: nothing was written; BackendError, with `outcome: 'unknown'` when the
 * reply was lost, so that the operations may or may not have been carried out
 */
export async function guardMulti(
  runtimes: Iterable<Runtime>,
  lease: LeaseKey,
  operations: readonly MultiOperation[],
): Promise<boolean> {
  const { runtime } = findHold(runtimes, lease)
  if (runtime.settings.strategy === 'simple')
    throw new BackendError(
      'zookeeper',
      'with strategy simple all holders use the same node, so its existence proves nothing; use strategy line',
    )
  for (;;) {
    const mine = leaseCheck(runtimes, lease)
    const from = runtime.clock.now()
    try {
      await runtime.session.call(multi([mine, ...operations.map((one) => toPart(one, runtime))]))
      return true
    } catch (error) {
      if (!(error instanceof MultiError)) {
        const failure = toFailure(error)
        const what = `the multi under ${quote(lease.name)}`
        throw failure.unanswered
          ? outcomeUnknown('zookeeper', what, runtime.clock.now() - from, failure)
          : failure
      }
      if (error.part > 0) return ownAnswer(error)
      // A writer downgraded meanwhile has another node.
      if (!isCode(error, codes.noNode)) throw toFailure(error)
      if (leaseCheck(runtimes, lease).path === mine.path) throw new StaleTokenError(lease.name, lease.token)
    }
  }
}

/** One of the user's operations was refused: by the state of the nodes (false), or permanently (an error). */
function ownAnswer(error: MultiError): false {
  const { badVersion, nodeExists, noNode, notEmpty } = codes
  const answers: readonly number[] = [badVersion, nodeExists, noNode, notEmpty]
  if (answers.includes(error.code)) return false
  throw toFailure(error)
}

function toPart(operation: MultiOperation, { acl }: Runtime): Part {
  if (operation.type === 'delete' || operation.type === 'check') return operation
  const data = typeof operation.data === 'string' ? Buffer.from(operation.data) : operation.data
  return operation.type === 'setData'
    ? { ...operation, data }
    : { ...operation, data, acl, flag: flags.persistent }
}
