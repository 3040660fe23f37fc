/**
 * The ZooKeeper requests that locks need, and their answers.
 * Source: zookeeper.jute of ZooKeeper 3.8 and the programmer's guide (zookeeper.apache.org/doc/r3.8.0).
 *
 * Long because it is a table of messages.
 */
import type { Reader, Writer } from './jute.js'

/** A request: how to write it, and how to read its answer. */
export interface Request<T> {
  readonly op: number
  readonly write: (to: Writer) => void
  readonly read: (from: Reader) => T
  readonly watch?: Watch
}

/** A one-time notification of the next change. The client registers it when the answer confirms that the server watches. */
export interface Watch {
  readonly kind: WatchKind
  readonly path: string
  readonly fired: () => void
}
/** `exist`: on a missing node; fires when the node is created. */
export type WatchKind = 'data' | 'child' | 'exist'

/** The fields used of a node's stat. */
export interface Stat {
  /** The id of the transaction that created the node: unique in the ensemble, and growing across leaders and restarts. */
  readonly czxid: bigint
  /** Time of creation, in ms by the leader's wall clock. */
  readonly ctime: number
  /** The id of the transaction that last changed the data; at first the one that created the node. */
  readonly mzxid: bigint
  /** Time of the last change of the data, in ms by the leader's wall clock. */
  readonly mtime: number
  /** The number of changes of the data since creation. */
  readonly version: number
  /** The session that the node ends with; 0n: the node is persistent. */
  readonly ephemeralOwner: bigint
}

export interface AclEntry {
  /** Sum of 1 read, 2 write, 4 create, 8 delete, 16 admin. */
  readonly permissions: number
  readonly scheme: string
  readonly id: string
}

export const flags = { persistent: 0, ephemeral: 1, ephemeralSequential: 3, container: 4 } as const

/** Requests with an xid of their own. */
export const xids = { event: -1, auth: -4, setWatches: -8 } as const
export const ops = { exists: 3, sync: 9, auth: 100, setWatches: 101, close: -11 } as const

/** Requests that the leader answers, whichever server receives them: delete, setData, sync, multi, create2, createContainer. */
const toLeader: ReadonlySet<number> = new Set([2, 5, 9, 14, 15, 19])

/** Does this answer prove that the leader knows of the session? The connected server issues some refusals on its own. */
export function provesSession(op: number, error: number): boolean {
  const { noNode, nodeExists, badVersion } = codes
  return toLeader.has(op) && [0, noNode, nodeExists, badVersion].includes(error)
}

/** The error codes that the driver distinguishes. */
export const codes = {
  connectionLoss: -4,
  marshalling: -5,
  unimplemented: -6,
  noNode: -101,
  noAuth: -102,
  badVersion: -103,
  noChildrenForEphemerals: -108,
  nodeExists: -110,
  notEmpty: -111,
  sessionExpired: -112,
  invalidAcl: -114,
  authFailed: -115,
  sessionMoved: -118,
  quota: -125,
} as const

export class ZookeeperError extends Error {
  readonly code: number
  constructor(code: number, message: string, options?: ErrorOptions) {
    super(message, options)
    this.code = code
  }
}

export class MultiError extends ZookeeperError {
  /** The index of the refused part, from 0. */
  readonly part: number
  constructor(part: number, { code, message }: ZookeeperError) {
    super(code, message)
    this.part = part
  }
}

/** Creates a node; the same answer has its full path and stat. */
export function create(
  path: string,
  data: Uint8Array,
  acl: readonly AclEntry[],
  flag: number,
): Request<{ readonly path: string; readonly stat: Stat }> {
  return {
    // 15: create2, 19: createContainer. The older create does not return the stat, which has the token.
    op: flag === flags.container ? 19 : 15,
    write: (to) => writeCreate(to, path, data, acl, flag),
    read: (from) => ({ path: from.text(), stat: readStat(from) }),
  }
}

function writeCreate(
  to: Writer,
  path: string,
  data: Uint8Array,
  acl: readonly AclEntry[],
  flag: number,
): void {
  to.text(path).bytes(data).int(acl.length)
  for (const { permissions, scheme, id } of acl) to.int(permissions).text(scheme).text(id)
  to.int(flag)
}

/** @param version -1: any version */
export function remove(path: string, version = -1): Request<void> {
  return { op: 2, write: (to) => to.text(path).int(version), read: () => undefined }
}

/** Refused when the node does not exist; the watch then fires when it is created. */
export function exists(path: string, fired?: () => void): Request<Stat> {
  return watched(ops.exists, path, 'data', fired, readStat)
}

export function getData(
  path: string,
  fired?: () => void,
): Request<{ readonly data: Buffer; readonly stat: Stat }> {
  return watched(4, path, 'data', fired, (from) => ({ data: from.bytes(), stat: readStat(from) }))
}

/** @param version -1: any version */
export function setData(path: string, data: Uint8Array, version = -1): Request<Stat> {
  return { op: 5, write: (to) => to.text(path).bytes(data).int(version), read: readStat }
}

export function getChildren(path: string, fired?: () => void): Request<readonly string[]> {
  return watched(12, path, 'child', fired, (from) => from.texts())
}

/** The children, and the stat of the node itself, both of the same moment. */
export function listing(
  path: string,
): Request<{ readonly children: readonly string[]; readonly stat: Stat }> {
  return watched(12, path, 'child', undefined, (from) => ({ children: from.texts(), stat: readStat(from) }))
}

/** Brings the connected server up to the leader's state at the time of the request. */
export function sync(path: string): Request<void> {
  return { op: ops.sync, write: (to) => to.text(path), read: () => undefined }
}

/** Part of a `multi`. Version -1: any. */
export type Part =
  | {
      readonly type: 'create'
      readonly path: string
      readonly data: Uint8Array
      readonly acl: readonly AclEntry[]
      readonly flag: number
    }
  | {
      readonly type: 'setData'
      readonly path: string
      readonly data: Uint8Array
      readonly version: number
    }
  | { readonly type: 'delete' | 'check'; readonly path: string; readonly version: number }

const partOps = { create: 1, delete: 2, setData: 5, check: 13 } as const

/** All parts or none. The answer has the stats after the `setData`s. Rejects with a `MultiError` that names the refused part. */
export function multi(parts: readonly Part[]): Request<readonly Stat[]> {
  return {
    op: 14,
    write: (to) => {
      for (const part of parts) {
        to.int(partOps[part.type]).bool(false).int(-1)
        if (part.type === 'create') writeCreate(to, part.path, part.data, part.acl, part.flag)
        else if (part.type === 'setData') to.text(part.path).bytes(part.data).int(part.version)
        else to.text(part.path).int(part.version)
      }
      to.int(-1).bool(true).int(-1)
    },
    read: readMulti,
  }
}

/** Creates an ephemeral node with a given name and removes another: both or neither. */
export function exchange(
  path: string,
  data: Uint8Array,
  acl: readonly AclEntry[],
  removed: string,
): Request<readonly Stat[]> {
  const create = { type: 'create', path, data, acl, flag: flags.ephemeral } as const
  return multi([create, { type: 'delete', path: removed, version: -1 }])
}

/** The error code of a part that was undone, or not tried, because of another part. */
const becauseOfAnother = -2

/** A failed multi answers each part with an error; 0: undone because of another part. */
function readMulti(from: Reader): readonly Stat[] {
  const stats: Stat[] = []
  for (let part = 0; ; part++) {
    const type = from.int()
    const done = from.bool()
    from.int()
    if (done) return stats
    if (type === partOps.create) from.text()
    else if (type === partOps.setData) {
      stats.push(readStat(from))
      // The rest of a stat: lengths, and the last change of the children.
      from.int()
      from.int()
      from.long()
    } else if (type === -1) {
      const code = from.int()
      if (code !== 0 && code !== becauseOfAnother)
        throw new MultiError(part, refusal(code, `part ${part} of a multi`))
    }
  }
}

function watched<T>(
  op: number,
  path: string,
  kind: WatchKind,
  fired: (() => void) | undefined,
  read: (from: Reader) => T,
): Request<T> {
  return {
    op,
    write: (to) => to.text(path).bool(fired !== undefined),
    read,
    ...(fired && { watch: { kind, path, fired } }),
  }
}

function readStat(from: Reader): Stat {
  const czxid = from.long()
  const mzxid = from.long()
  const ctime = Number(from.long())
  const mtime = Number(from.long())
  const version = from.int()
  for (let i = 0; i < 2; i++) from.int()
  return { czxid, mzxid, ctime, mtime, version, ephemeralOwner: from.long() }
}

const words = new Map(Object.entries(codes).map(([word, code]) => [code as number, word]))

export function refusal(code: number, what: string): ZookeeperError {
  return new ZookeeperError(code, `${what} was refused: ${words.get(code) ?? 'error'} (${code})`)
}
