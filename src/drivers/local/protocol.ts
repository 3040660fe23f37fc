/**
 * The protocol of client and broker: JSON arrays, one per line, over a stream socket.
 *
 * ```
 *   client                                   broker
 *   hello  version, nonce         ─────────►
 *                                 ◄─────────  hello   version, nonce, proof, pid     it can read our home file
 *   prove  proof                  ─────────►                                       so can we
 *   enter  who, attempts          ─────────►
 *                                 ◄─────────  entered attempts it does not hold
 *   call   id, verb, …            ─────────►
 *                                 ◄─────────  id, answer, …                          exactly one per call, in any order
 *                                 ◄─────────  0, notice, …
 *   bye                           ─────────►
 * ```
 * On Linux, every user of the machine may connect. Until a client has authenticated, it may send only short lines, for a short time.
 * Every call may be sent again over a new connection, with the same id: its effect is idempotent by attempt id.
 */
import { createHmac } from 'node:crypto'
import type { LockStatus } from '../../core/driver.js'
import { exclusive, type Mode, permits, shared } from '../../core/mode.js'
import type { ProcessIdentity } from './processes.js'

/** Both ends must use the same version. */
export const version = 4

/** A client's identity, and its current attempts: the broker ends all others. */
export interface Hello {
  readonly client: string
  readonly by: string
  readonly mark: ProcessIdentity
  /** Attempts that the client believes it holds. */
  readonly held: readonly string[]
  /** Attempts that the client requests. */
  readonly asked: readonly string[]
}

export type BrokerHello =
  | readonly ['hello', version: number, nonce: string]
  | readonly ['prove', proof: string]
  | readonly ['enter', who: Hello]
  | readonly ['bye']

export type HelloReply =
  | readonly ['hello', version: number, nonce: string, proof: string, pid: number]
  | readonly ['entered', gone: readonly string[]]
  /** Why the connection ends. */
  | readonly ['no', why: string]

/** `x`: exclusive, `s`: shared, `[take, of]`: permits. */
export type WireMode = 'x' | 's' | readonly [take: number, of: number]

/** One of several locks requested together. */
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
  /** All or none, as single attempts that do not wait. */
  | readonly ['together', items: readonly Item[]]
  /** `order`: grows with every renewal of a hold. A copy that arrives after a later one shortens nothing, nor does one without. */
  | readonly ['renew', name: string, attempt: string, ttl: number, order?: number]
  | readonly ['release', name: string, attempt: string, last: number]
  | readonly ['cancel', name: string, attempt: string]
  | readonly ['downgrade', name: string, attempt: string, last: number]
  | readonly ['inspect', name: string]
  | readonly ['list', prefix: string]
  /** `attempts`: those that the operator saw. Later holders are not affected, even if the call comes twice. */
  | readonly ['force', name: string, attempts: readonly string[]]
  | readonly ['read', key: string]
  /** `value` null: remove the cell. `keep` null: forever. */
  | readonly ['write', key: string, seen: number, value: string | null, keep: number | null, id: string]
  /** Answered when the cell leaves that version. */
  | readonly ['watch', key: string, version: number, watch: string]
  | readonly ['unwatch', key: string, watch: string]

export type Call = readonly [id: number, ...Verb]

export type Answer =
  /** `age`: ms between the call and the grant, by the broker's clock. */
  | readonly ['granted', token: number, upTo: number, age: number, contended: boolean]
  /** Not the last answer to its call: the grant follows. */
  | readonly ['waiting', position: number, ticket: number, holder: LockStatus['holders'][number] | null]
  | readonly ['busy', holder: LockStatus['holders'][number] | null]
  | readonly ['over']
  /** The terms of `granted`, for each item. */
  | readonly [
      'all',
      grants: readonly (readonly [token: number, upTo: number, age: number, contended: boolean])[],
    ]
  /** Item `at` is not free, or, with `limit`, is a semaphore with that other limit. */
  | readonly ['none', at: number, limit: number | null]
  | readonly ['limit', limit: number]
  | readonly ['done', result?: unknown]
  | readonly ['failed', why: string]

export type Notice =
  /** The hold has ended: it was overdue, or an operator released it. */
  | readonly [0, 'lost', attempt: string]
  /** Start a standby thread, in case the broker's process dies. */
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

/** Proves that `side` knows the secret, for these two nonces only. */
export function computeProof(
  side: 'broker' | 'client',
  secret: string,
  clientNonce: string,
  brokerNonce: string,
): string {
  return createHmac('sha256', secret).update(`${side} ${clientNonce} ${brokerNonce}`).digest('base64')
}

/** Far above the longest line that holdfast ever sends: a longer line comes from another program. */
export const maxLine: number = 64 * 1024 * 1024
/** The same for a client that has not authenticated: a greeting has some hundred characters. */
export const maxHello = 1024

/**
 * Splits chunks into whole lines.
 * @param longest the most characters that the next line may have
 * @throws Error when a line is not JSON or is longer
 */
export function lineReader<T>(
  onMessage: (message: T) => void,
  longest: () => number = () => maxLine,
): (chunk: string) => void {
  let rest = ''
  const fits = (line: string) => {
    if (line.length > longest()) throw new Error('a line without end')
    return line
  }
  return (chunk) => {
    let from = 0
    let end = chunk.indexOf('\n')
    if (end < 0) {
      rest = fits(rest + chunk)
      return
    }
    const first = rest + chunk.slice(0, end)
    rest = ''
    onMessage(JSON.parse(fits(first)) as T)
    for (from = end + 1; ; from = end + 1) {
      end = chunk.indexOf('\n', from)
      if (end < 0) break
      onMessage(JSON.parse(fits(chunk.slice(from, end))) as T)
    }
    rest = fits(chunk.slice(from))
  }
}
