/** The messages with which a connection begins: the session, the logins, and the watches of a session that goes on. */
import { Reader, Writer } from './jute.js'
import { ops, xids } from './protocol.js'
import type { Watches } from './watches.js'

/** What names a session to any server. */
export interface SessionIdentity {
  /** 0n: no session yet. */
  readonly id: bigint
  readonly password: Buffer
}

export const noSession: SessionIdentity = { id: 0n, password: Buffer.alloc(16) }

/** Asks for a new session, or for the one of `identity`. */
export function connectRequest({ id, password }: SessionIdentity, lastZxid: bigint, timeout: number): Buffer {
  return new Writer().int(0).long(lastZxid).int(timeout).long(id).bytes(password).bool(false).frame()
}

/** Undefined: the session has ended. */
export function parseConnectReply(
  body: Buffer,
): (SessionIdentity & { readonly timeout: number }) | undefined {
  const from = new Reader(body)
  from.int()
  const timeout = from.int()
  const id = from.long()
  if (timeout <= 0 || id === 0n) return undefined
  return { id, timeout, password: Buffer.from(from.bytes()) }
}

export function loginRequest(scheme: string, credential: string): Buffer {
  return header(xids.auth, ops.auth).int(0).text(scheme).bytes(Buffer.from(credential)).frame()
}

/** The server reports all changes since `lastZxid`, so no event is missed. */
export function watchesRequests(watches: Watches, lastZxid: bigint): readonly Buffer[] {
  return watches.pieces().map((piece) => {
    const to = header(xids.setWatches, ops.setWatches).long(lastZxid)
    piece(to)
    return to.frame()
  })
}

function header(xid: number, op: number): Writer {
  return new Writer().int(xid).int(op)
}
