/**
 * What client and broker say to each other: JSON arrays, one a line, over a stream socket.
 *
 * ```
 *   client                                   broker
 *   hello  version, nonce         ─────────►
 *                                 ◄─────────  hello   version, nonce, proof, pid     it can read our home file
 *   enter  proof, who, attempts   ─────────►
 *                                 ◄─────────  entered attempts it does not hold      so can we
 *   call   id, verb, …            ─────────►
 *                                 ◄─────────  id, answer, …                          exactly one for each call, in any order
 *                                 ◄─────────  0, notice, …
 *   bye                           ─────────►
 * ```
 * Every call may be sent again over a new connection, with the same id: what it does is idempotent by the attempt.
 */
import { createHmac } from 'node:crypto'
import type { Standing } from '../../core/driver.js'
import { exclusive, type Mode, permits, shared } from '../../core/mode.js'
import type { ProcessMark } from './processes.js'

/** Both ends must speak the same one. */
export const version = 2

/** Who a client is, and which attempts it still cares about: the broker gives back the others. */
export interface Entering {
  readonly client: string
  readonly by: string
  readonly mark: ProcessMark
  /** Attempts it believes to hold. */
  readonly held: readonly string[]
  /** Attempts it is asking for. */
  readonly asked: readonly string[]
}

export type Greeting =
  | readonly ['hello', version: number, nonce: string]
  | readonly ['enter', proof: string, who: Entering]
  | readonly ['bye']

export type Welcome =
  | readonly ['hello', version: number, nonce: string, proof: string, pid: number]
  | readonly ['entered', gone: readonly string[]]
  /** Why the connection ends. */
  | readonly ['no', why: string]

/** `x`: exclusive, `s`: shared, `[take, of]`: permits. */
export type WireMode = 'x' | 's' | readonly [take: number, of: number]

/** One of several that are asked for together. */
export type Item = readonly [name: string, attempt: string, mode: WireMode, ttl: number, note: string]

export type Verb =
  | readonly [
      'acquire',
      name: string,
      attempt: string,
      mode: WireMode,
      ttl: number,
      wait: boolean,
      ticket: number,
      note: string,
    ]
  /** All or nothing, as single attempts. */
  | readonly ['together', items: readonly Item[]]
  | readonly ['renew', name: string, attempt: string, ttl: number]
  | readonly ['release', name: string, attempt: string, last: number]
  | readonly ['cancel', name: string, attempt: string]
  | readonly ['downgrade', name: string, attempt: string, last: number]
  | readonly ['inspect', name: string]
  | readonly ['list', prefix: string]
  | readonly ['force', name: string]
  | readonly ['read', key: string]
  /** `value` null: remove it. `keep` null: for ever. */
  | readonly ['write', key: string, seen: number, value: string | null, keep: number | null, id: string]
  /** Answered when the cell leaves that version. */
  | readonly ['watch', key: string, version: number, watch: string]
  | readonly ['unwatch', key: string, watch: string]

export type Call = readonly [id: number, ...Verb]

export type Answer =
  /** `age`: ms between the call and the grant, by the broker's clock. */
  | readonly ['granted', token: number, upTo: number, age: number, contended: boolean]
  /** Not the last answer to its call: the grant follows. */
  | readonly ['waiting', position: number, ticket: number, holder: Standing['holders'][number] | null]
  | readonly ['busy', holder: Standing['holders'][number] | null]
  | readonly ['over']
  /** What `granted` says, of each item. */
  | readonly [
      'all',
      grants: readonly (readonly [token: number, upTo: number, age: number, contended: boolean])[],
    ]
  /** One is not free; or it is a semaphore with another limit. */
  | readonly ['none', at: number, limit: number | null]
  | readonly ['limit', limit: number]
  | readonly ['done', result?: unknown]
  | readonly ['failed', why: string]

export type Notice =
  /** The hold has ended: overdue, or taken by an operator. */
  | readonly [0, 'lost', attempt: string]
  /** Have a thread ready, in case the broker's process dies. */
  | readonly [0, 'standby', attempt: '']
  /** Whether another client waits for what this attempt holds. */
  | readonly [0, 'contended', attempt: string, yes: boolean]

export type Reply = readonly [id: number, ...Answer] | Notice

export function encodeMode(mode: Mode): WireMode {
  if (mode.kind === 'permits') return [mode.take, mode.of]
  return mode.kind === 'exclusive' ? 'x' : 's'
}

export function decodeMode(mode: WireMode): Mode {
  if (mode === 'x') return exclusive
  return mode === 's' ? shared : permits(mode[0], mode[1])
}

/** Shows that `side` knows the secret, for these two nonces only. */
export function proofOf(
  side: 'broker' | 'client',
  secret: string,
  clientNonce: string,
  brokerNonce: string,
): string {
  return createHmac('sha256', secret).update(`${side} ${clientNonce} ${brokerNonce}`).digest('base64')
}

/** Far above the longest line that is ever sent: what is longer comes from something else than holdfast. */
const longestLine = 64 * 1024 * 1024

/** Gives whole lines out of chunks. @throws Error when a line is not JSON or has no end */
export function lineReader<T>(onMessage: (message: T) => void): (chunk: string) => void {
  let rest = ''
  return (chunk) => {
    let from = 0
    let end = chunk.indexOf('\n')
    if (end < 0) {
      rest += chunk
      if (rest.length > longestLine) throw new Error('a line without end')
      return
    }
    const first = rest + chunk.slice(0, end)
    rest = ''
    onMessage(JSON.parse(first) as T)
    for (from = end + 1; ; from = end + 1) {
      end = chunk.indexOf('\n', from)
      if (end < 0) break
      onMessage(JSON.parse(chunk.slice(from, end)) as T)
    }
    rest = chunk.slice(from)
  }
}
