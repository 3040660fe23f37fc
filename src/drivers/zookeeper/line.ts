/**
 * Who holds and who waits, read from the names of the nodes: decided here, without asking anybody.
 *
 * The order is that of the numbers the server appends: signed 32-bit integers that count the children a parent has ever
 * had. After 2147483647 they tell no order any more. ZooKeeper 3.8 gives 2147483647 to every further place, but counts on from
 * -2147483648, as its documentation says, while changes of the same parent are under way in it, and then goes back: of two
 * places past the end nobody can tell which is older. They are a tie, and nobody holds by it: whoever finds one steps back until
 * the line is empty and its node can be removed, whereupon the server counts anew. Near the end each release tries that.
 * A place before the end is older than one past it, told by their difference, as TCP does with its own numbers; sorted as texts, as
 * other clients do it, the first place after the overflow would stand before its holder.
 *
 * Places of others count, too: Curator's `-lock-`, `__READ__` and `__WRIT__`, kazoo's `__lock__` and `__rlock__`; and
 * whatever else ends in such a number is taken for a mutex, so that it is never overtaken.
 */
import { admits, exclusive, type Mode, permits, shared } from '../../core/mode.js'

export interface Place {
  readonly node: string
  readonly number: number
  readonly mode: Mode
  /** Ours: the claim's; of others: the name of the node. */
  readonly attempt: string
}

const known = /(lock-|__lock__|__rlock__|__READ__|__WRIT__)(-\d{9,10}|\d{10})$/
/** Of an unknown name a hyphen before ten digits is taken for its own, as long as they are a number without a sign. */
const unknown = /(\d{10}|-\d{9})$/

/** What was read of a name: each look at a long line reads mostly the names of the one before. */
const places = new Map<string, Place | undefined>()
const placesKept = 5_000

/** `undefined`: no place in line. */
export function placeOf(node: string): Place | undefined {
  const kept = places.get(node)
  if (kept !== undefined) return kept
  const place = readPlace(node)
  if (places.size >= placesKept) places.clear()
  places.set(node, place)
  return place
}

function readPlace(node: string): Place | undefined {
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

/** From here on an empty line is begun anew: a million places before the last number. */
export const nearlyFull: number = 0x7fffffff - 0xfffff

/** At the last number or past it, where numbers tell no order. */
const past = (number: number): boolean => number === 0x7fffffff || number < 0

/** How much later `a` came than `b`; negative: earlier. */
export const later = (a: number, b: number): number => (a - b) | 0

/** The places among the children, the oldest first. */
export function inOrder(children: readonly string[]): readonly Place[] {
  const line = children.map(placeOf).filter((place) => place !== undefined)
  return line.sort((a, b) => later(a.number, b.number) || (a.node < b.node ? -1 : 1))
}

/** How many from the front hold: each that fits beside all before it. */
export function holding(line: readonly Place[]): number {
  const modes: Mode[] = []
  for (const { mode } of line) {
    if (!admits(modes, mode)) break
    modes.push(mode)
  }
  return modes.length
}

export type Verdict =
  /** `behind`: others stand behind it. */
  | { readonly is: 'granted'; readonly behind: boolean }
  /** Look again when `node` has gone or changed; undefined: when any of the children has. */
  | {
      readonly is: 'waiting'
      readonly node: string | undefined
      /** 1: next. */
      readonly position: number
      readonly holder: Place | undefined
    }
  /** Its own place is not among them. */
  | { readonly is: 'gone' }
  /** Somebody uses the semaphore with another limit. */
  | { readonly is: 'limit'; readonly limit: number }
  /** Another place is past the end of the numbers, too: nobody can tell who came first. */
  | { readonly is: 'tie' }

export function judge(children: readonly string[], own: string): Verdict {
  const line = inOrder(children)
  const index = line.findIndex(({ node }) => node === own)
  const me = line[index]
  if (me === undefined) return { is: 'gone' }
  const others = line.filter((place) => place !== me)
  if (others.some(({ number }) => number === me.number || (past(number) && past(me.number))))
    return { is: 'tie' }
  const { mode } = me
  if (mode.kind === 'permits') {
    const differs = others.find((other) => other.mode.kind === 'permits' && other.mode.of !== mode.of)
    if (differs?.mode.kind === 'permits') return { is: 'limit', limit: differs.mode.of }
  }
  const before = line.slice(0, index)
  const modes = before.map((place) => place.mode)
  if (admits(modes, mode)) return { is: 'granted', behind: index + 1 < line.length }
  const held = holding(line)
  return {
    is: 'waiting',
    node: whomToWatch(before, mode, held),
    position: index - held + 1,
    holder: line[0],
  }
}

/**
 * The one whose going or change can let `mode` in, so that nobody is woken for nothing.
 *
 * A writer waits for the place before it. A reader for the last that is no reader. A permit for the place before it as long as
 * that waits itself, for it says when it holds; the first that waits looks at all, because any holder may be the next to leave.
 */
function whomToWatch(before: readonly Place[], mode: Mode, held: number): string | undefined {
  if (mode.kind === 'exclusive') return before.at(-1)?.node
  const other = before.findLast((place) => place.mode.kind !== mode.kind)
  if (other !== undefined || mode.kind === 'shared') return other?.node
  return before.length > held ? before.at(-1)?.node : undefined
}
