/**
 * Who holds, by the order of the line alone. A place holds when its mode goes together with all that stand before it, and nobody
 * overtakes: so whoever holds does so for as long as its place is there, and what is before a holder holds, too.
 */
import { admits, type Mode } from '../../core/mode.js'

export interface InLine {
  readonly mode: Mode
}

export function holds(ahead: readonly InLine[], mode: Mode): boolean {
  return admits(
    ahead.map((place) => place.mode),
    mode,
  )
}

/** The holders: how long the longest beginning of the line is in which each goes together with those before it. */
export function holdersIn(line: readonly InLine[]): number {
  let n = 0
  for (const { mode } of line) {
    if (!holds(line.slice(0, n), mode)) break
    n++
  }
  return n
}

/** The limit by which a semaphore of this name is in use, where it is not `mode`'s. */
export function otherLimit(ahead: readonly InLine[], mode: Mode): number | undefined {
  if (mode.kind !== 'permits') return undefined
  for (const { mode: theirs } of ahead) {
    if (theirs.kind === 'permits' && theirs.of !== mode.of) return theirs.of
  }
  return undefined
}

/**
 * The one place whose end is waited for: while it stands there, nothing else that happens can help. Undefined for permits
 * behind permits: any of them may make room.
 */
export function inTheWay<P extends InLine>(ahead: readonly P[], mode: Mode): P | undefined {
  if (mode.kind === 'exclusive') return ahead.at(-1)
  return ahead.findLast((place) => place.mode.kind !== mode.kind)
}
