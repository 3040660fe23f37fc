/**
 * Computes holders and waiters from the names of the nodes, without a request.
 *
 * The order is that of the numbers which the server appends: signed 32-bit integers that count the children a parent has ever
 * had. After 2147483647 the numbers give no order. ZooKeeper 3.8 then assigns 2147483647 to every further entry; but while
 * changes of the same parent are in flight, it continues from -2147483648, as documented, and then goes back. The age of two
 * entries past the end is thus unknown. This is a tie, and neither is granted. A waiter that finds a tie leaves the queue until
 * the queue is empty and its node can be removed; the server then starts counting again. Near the end, each release tries this.
 *
 * An entry before the end is older than one past it: numbers are compared modulo 2^32, as in TCP. Other clients compare them as
 * text, which would put the first entry after the overflow ahead of its holder.
 *
 * Entries of other clients count: Curator's `-lock-`, `__READ__` and `__WRIT__`, kazoo's `__lock__` and `__rlock__`. Any other
 * name that ends in such a number counts as a mutex, so that it is never overtaken.
 */
import { exclusive, type Mode, permits, shared } from '../../core/mode.js'
import { conflictingLimit, findBlocker, grantedCount, isGranted } from '../kit/sessions/order.js'

export interface QueueEntry {
  readonly node: string
  readonly number: number
  readonly mode: Mode
  /** The claim's attempt id; for another client's entry, the name of the node. */
  readonly attempt: string
}

const known = /(lock-|__lock__|__rlock__|__READ__|__WRIT__)(-\d{9,10}|\d{10})$/
/** In an unknown name, a hyphen before ten digits is part of the name, not a minus sign. */
const unknown = /(\d{10}|-\d{9})$/

/** A cache of parsed names: consecutive reads of a long queue return mostly the same names. */
const entryCache = new Map<string, QueueEntry | undefined>()
const maxCached = 5_000

/** @returns undefined when the node is no queue entry */
export function parseEntry(node: string): QueueEntry | undefined {
  const kept = entryCache.get(node)
  if (kept !== undefined) return kept
  const entry = parseUncached(node)
  if (entryCache.size >= maxCached) entryCache.clear()
  entryCache.set(node, entry)
  return entry
}

function parseUncached(node: string): QueueEntry | undefined {
  const digits = known.exec(node)?.[2] ?? unknown.exec(node)?.[1]
  if (digits === undefined) return undefined
  const start = node.slice(0, -digits.length)
  const [, attempt = node] = /^(?:_c_)?([0-9a-f]{32})(?=[-_])/.exec(start) ?? []
  const [, take, of] = /-(\d+)of(\d+)(?:-lock-|__lock__)$/.exec(start) ?? []
  const mode =
    take !== undefined
      ? permits(Number(take), Number(of))
      : /(?:-shared-lock-|__rlock__|__READ__)$/.test(start)
        ? shared
        : exclusive
  return { node, number: Number(digits) | 0, mode, attempt }
}

/** From this number on, an empty queue is recreated: a million entries before the last number. */
export const sequenceLimit: number = 0x7fffffff - 0xfffff

/** At or past the last number, where numbers give no order. */
const isPastEnd = (number: number): boolean => number === 0x7fffffff || number < 0

/** How much later `a` entered than `b`; negative: earlier. */
export const compareSequence = (a: number, b: number): number => (a - b) | 0

/** The queue entries among the children, oldest first. */
export function inOrder(children: readonly string[]): readonly QueueEntry[] {
  const line = children.map(parseEntry).filter((entry) => entry !== undefined)
  return line.sort((a, b) => compareSequence(a.number, b.number) || (a.node < b.node ? -1 : 1))
}

export type QueueState =
  /** `behind`: other entries are queued behind it. */
  | { readonly is: 'granted'; readonly behind: boolean }
  /** Read again when `node` has gone or changed; undefined: when any of the children has. */
  | {
      readonly is: 'waiting'
      readonly node: string | undefined
      /** 1: next. */
      readonly position: number
      readonly holder: QueueEntry | undefined
    }
  /** Our own entry is missing. */
  | { readonly is: 'gone' }
  /** Another entry uses the semaphore with a different limit. */
  | { readonly is: 'limit'; readonly limit: number }
  /** Our entry and another are both past the end of the numbers, or have the same number: their order is unknown. */
  | { readonly is: 'tie' }

export function evaluate(children: readonly string[], own: string): QueueState {
  const line = inOrder(children)
  const index = line.findIndex(({ node }) => node === own)
  const me = line[index]
  if (me === undefined) return { is: 'gone' }
  const others = line.filter((entry) => entry !== me)
  if (others.some(({ number }) => number === me.number || (isPastEnd(number) && isPastEnd(me.number))))
    return { is: 'tie' }
  const { mode } = me
  const before = line.slice(0, index)
  const limit = conflictingLimit(before, mode)
  if (limit !== undefined) return { is: 'limit', limit }
  if (isGranted(before, mode)) return { is: 'granted', behind: index + 1 < line.length }
  const held = grantedCount(line)
  return {
    is: 'waiting',
    node: nodeToWatch(before, mode, held),
    position: index - held + 1,
    holder: line[0],
  }
}

/**
 * The entry whose removal or change can let `mode` in, so that no waiter is woken for nothing.
 *
 * A writer watches the entry before it. A reader watches the last entry that is no reader. A permit watches the entry before it
 * while that one waits, because that entry is written to when it holds. The first waiting permit watches all, because any holder
 * may be the next to leave.
 */
function nodeToWatch(before: readonly QueueEntry[], mode: Mode, held: number): string | undefined {
  if (mode.kind === 'exclusive') return before.at(-1)?.node
  const other = findBlocker(before, mode)
  if (other !== undefined || mode.kind === 'shared') return other?.node
  return before.length > held ? before.at(-1)?.node : undefined
}
