/**
 * The stamp of a queue: a write to its node that succeeds only while an entry exists. Its transaction id is a token newer than every
 * earlier one, and shows in the stat of the queue's node, so that the next holder learns that its own position is older.
 *
 * The write wakes nobody: waiters watch entries and children. It empties the data of the node, which no recipe uses; Curator puts
 * the address of its machine there.
 */

import { ignore } from './failure.js'
import type { QueueEntry } from './queue.js'
import { codes, multi, type Stat } from './session/protocol.js'
import type { Session } from './session/session.js'
import { toToken } from './token.js'

const nothing = Buffer.alloc(0)

/**
 * @param record written to the entry, too: of several that hold beside each other, each then shows its own token
 * @returns the token; undefined: the entry is gone
 * @throws ZookeeperError with `noAuth` when the queue's node must not be written to
 */
export async function stamped(
  session: Session,
  { lock, path }: { readonly lock: string; readonly path: string },
  record?: Uint8Array,
): Promise<number | undefined> {
  const any = { path, version: -1 } as const
  const own =
    record === undefined
      ? ({ ...any, type: 'check' } as const)
      : ({ ...any, type: 'setData', data: record } as const)
  const write = { type: 'setData', path: lock, data: nothing, version: -1 } as const
  const [stat] = (await session.call(multi([own, write])).catch(ignore(codes.noNode))) ?? []
  return stat && toToken(stat.mzxid)
}

/** The token of a holder, from its node and the stamp of its queue. Of a permit that had to wait for a mutex, it is an older one. */
export function holderToken({ mode }: QueueEntry, { czxid, mzxid }: Stat, stamp: bigint): number {
  const newest = mode.kind === 'exclusive' ? stamp : mode.kind === 'shared' ? mzxid : czxid
  return Number(newest > czxid ? newest : czxid)
}
