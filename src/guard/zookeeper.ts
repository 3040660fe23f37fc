/**
 * The token in ZooKeeper: kept in its own node, whose version is checked in the same `multi` that writes. The client
 * is yours; any client with `getData` and `multi` fits behind {@link ZookeeperGuardClient} in a few lines.
 */
import { describe } from '../core/name.js'
import { guardedCommit } from './commit.js'
import { checkKey, type Fence } from './fence.js'
import { isZookeeperAnswer, reportUnknown } from './outcome.js'

/** Part of a `multi`. */
export type ZookeeperOperation =
  | { readonly type: 'create'; readonly path: string; readonly data: string | Uint8Array }
  | {
      readonly type: 'setData'
      readonly path: string
      readonly data: string | Uint8Array
      readonly version: number
    }
  | { readonly type: 'delete'; readonly path: string; readonly version: number }
  | { readonly type: 'check'; readonly path: string; readonly version: number }

export interface ZookeeperGuardClient {
  /**
   * Data and version of a node, or `undefined` when there is none. The read may go to a follower: then `sync` first,
   * or more attempts are needed.
   */
  read(path: string): Promise<{ readonly data: string | Uint8Array; readonly version: number } | undefined>
  /** All or nothing. Resolves with false when the first operation was refused for its version or because the node already exists. */
  multi(operations: readonly ZookeeperOperation[]): Promise<boolean>
}

export interface GuardedMulti {
  readonly fence: Fence
  /** The node that keeps the newest token; its parent must exist. */
  readonly fencePath: string
  /** Version -1: any. */
  readonly operations: readonly ZookeeperOperation[]
  /** @default 10 */
  readonly attempts?: number
}

/**
 * Carries out operations unless the fence node has seen a newer token. @throws StaleTokenError; VersionConflictError
 * after the last attempt; LeaseLostError; BackendError with `outcome: 'unknown'` when `multi` throws an error with the `code` of
 * ZooKeeper for a lost connection (-4), a timeout (-7) or an expired session (-112); anything else that the client throws
 */
export async function guardedMulti(
  client: ZookeeperGuardClient,
  { fence, fencePath: path, operations, attempts }: GuardedMulti,
): Promise<void> {
  if (!checkKey(path, 'fencePath').startsWith('/'))
    throw new RangeError(`fencePath ${describe(path)} is not the path of a node; it begins with /`)
  return guardedCommit({
    name: path,
    fence,
    ...(attempts !== undefined && { attempts }),
    async read() {
      const there = await client.read(path)
      return there && { token: there.data, version: there.version }
    },
    write: (data, version) =>
      reportUnknown('zookeeper', `the multi on ${path} with token ${data}`, isZookeeperAnswer, () =>
        client.multi([
          version === undefined ? { type: 'create', path, data } : { type: 'setData', path, data, version },
          ...operations,
        ]),
      ),
  })
}
