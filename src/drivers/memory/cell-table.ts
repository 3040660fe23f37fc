/** The cells of one `memory()`, or of the broker of `local`: their contents, and the watchers of each. */
import type { Cell, CellChange } from '../../core/cell.js'
import type { Clock } from '../../core/clock.js'
import { nextToken } from '../../core/token.js'

/** A cell, or the memory of a removed one. */
export interface Entry {
  readonly version: number
  /** Undefined: removed. */
  readonly value: string | undefined
  /** Clock reading at which the entry expires. */
  readonly expires: number
  /** The id of the change that made the entry. */
  readonly id: string
}

export interface CellTable {
  read(key: string): Cell | undefined
  /** Calls `note` with a new entry before the entry takes effect; if `note` throws, nothing has changed. */
  write(key: string, change: CellChange, note?: (key: string, entry: Entry) => void): Cell | undefined
  /** Calls `changed` once, when the cell leaves `version`; at once if it has left already. Returns a function that cancels the watch. */
  watch(key: string, version: number, changed: () => void): () => void
  /** All entries that have not expired. */
  entries(): Iterable<readonly [key: string, entry: Entry]>
  /** Restores the entries of an earlier table. @param floor every version so far is at most this */
  restore(entries: Iterable<readonly [key: string, entry: Entry]>, floor: number): void
  /** The greatest version so far. */
  readonly top: number
  stop(): void
}

/** How long a removed cell is remembered, in ms, so that a repeated removal gets the same reply. */
const removedRetention = 60_000
/** After this many writes, expired entries are swept out. */
const sweepEvery = 1024

interface CellWatch {
  readonly listeners: Set<() => void>
  stop: (() => void) | undefined
}

/** @param wall milliseconds since 1970 */
export function createCellTable(clock: Clock, wall: () => number): CellTable {
  const entries = new Map<string, Entry>()
  const watched = new Map<string, CellWatch>()
  let top = 0
  let writes = 0

  function findEntry(key: string): Entry | undefined {
    const entry = entries.get(key)
    if (entry === undefined || entry.expires > clock.now()) return entry
    entries.delete(key)
    return undefined
  }

  function read(key: string): Cell | undefined {
    const entry = findEntry(key)
    return entry?.value === undefined ? undefined : { version: entry.version, value: entry.value }
  }

  function write(key: string, change: CellChange, note?: (key: string, entry: Entry) => void) {
    const { ifVersion, value, ttl, id } = change
    const before = findEntry(key)
    if (before?.id === id) return { version: before.version, value: before.value ?? '' }
    if ((read(key)?.version ?? 0) !== ifVersion) return undefined
    const version = nextToken(top, wall())
    const entry = {
      version,
      value,
      expires: clock.now() + (value === undefined ? removedRetention : ttl),
      id,
    }
    note?.(key, entry)
    top = version
    entries.set(key, entry)
    if (++writes % sweepEvery === 0) for (const one of [...entries.keys()]) findEntry(one)
    tell(key)
    return { version, value: value ?? '' }
  }

  function tell(key: string): void {
    const one = watched.get(key)
    if (one === undefined) return
    watched.delete(key)
    one.stop?.()
    for (const listener of one.listeners) listener()
  }

  function watch(key: string, version: number, changed: () => void): () => void {
    if ((read(key)?.version ?? 0) !== version) {
      changed()
      return () => undefined
    }
    const one: CellWatch = watched.get(key) ?? { listeners: new Set(), stop: untilEnd(key) }
    watched.set(key, one)
    one.listeners.add(changed)
    return () => {
      if (!one.listeners.delete(changed) || one.listeners.size > 0) return
      one.stop?.()
      if (watched.get(key) === one) watched.delete(key)
    }
  }

  /** A timer for the expiry of a watched cell: its watchers must be notified of it. */
  function untilEnd(key: string): (() => void) | undefined {
    const entry = findEntry(key)
    const ends = entry?.value !== undefined && entry.expires !== Number.POSITIVE_INFINITY
    return ends ? clock.at(entry.expires, () => tell(key)) : undefined
  }

  return {
    read,
    write,
    watch,
    *entries() {
      for (const key of [...entries.keys()]) {
        const entry = findEntry(key)
        if (entry !== undefined) yield [key, entry] as const
      }
    },
    restore(restored, floor) {
      top = Math.max(top, floor)
      for (const [key, entry] of restored) {
        entries.set(key, entry)
        top = Math.max(top, entry.version)
      }
    },
    get top() {
      return top
    },
    stop() {
      for (const one of watched.values()) one.stop?.()
      watched.clear()
    },
  }
}
