/**
 * The order in which locks are nested. Two orders that contradict each other are a deadlock that has not happened
 * yet; `note` reports them the first time they occur, whether anybody had to wait or not. After 10,000 reported pairs it
 * reports no more.
 *
 * An edge `a → b`: somebody requested b inside `run` of a. Kept by name and for one `createLocks`; semaphores and
 * tries are left out, because neither has to wait for one particular holder.
 */

/** Two orders that contradict each other, each from the lock that was held to the one that was requested. */
export type Orders = readonly [now: readonly string[], before: readonly string[]]

/** Beyond that the oldest names are forgotten: names like `order:12345` are used once. */
const maxNames = 10_000
/** So many pairs are reported; remembering more would grow without bound. */
const maxReports = 10_000
/** Locks known to be taken inside one name; beyond that the oldest is forgotten. */
const maxInner = 100
/** Beyond that many orders in all, the oldest name is forgotten with every lock taken inside it. */
const maxOrders = 20_000
/** The search for a contradiction visits no more names than that. */
const maxSearch = 1_000
/** The search for a contradiction goes no more steps than that. */
const maxPath = 8

export class LockOrder {
  readonly #after = new Map<string, Set<string>>()
  #orders = 0
  readonly #reported = new Set<string>()

  /** @param held the names that enclose the context, the innermost first */
  note(held: readonly string[], wanted: string): Orders | undefined {
    let found: Orders | undefined
    for (const name of held) {
      if (name === wanted) continue
      const next = this.#after.get(name)
      if (next?.has(wanted) === true) continue
      this.#add(name, next, wanted)
      found ??= this.#against(name, wanted)
    }
    return found
  }

  /** How many orders are remembered. */
  get size(): number {
    return this.#orders
  }

  /** Forgets many at a time: a map whose oldest entry is removed again and again becomes slow. */
  #add(name: string, inside: Set<string> | undefined, wanted: string): void {
    if (inside === undefined) this.#after.set(name, new Set([wanted]))
    else inside.add(wanted)
    this.#orders++
    if (inside !== undefined && inside.size > maxInner) {
      for (const old of inside) {
        if (inside.size <= maxInner / 2) break
        inside.delete(old)
        this.#orders--
      }
    }
    if (this.#after.size <= maxNames && this.#orders <= maxOrders) return
    for (const [old, { size }] of this.#after) {
      if (this.#after.size <= maxNames / 2 && this.#orders <= maxOrders / 2) break
      this.#after.delete(old)
      this.#orders -= size
    }
  }

  #against(held: string, wanted: string): Orders | undefined {
    const before = this.#path(wanted, held)
    if (before === undefined) return undefined
    const pair = JSON.stringify([held, wanted].sort())
    if (this.#reported.has(pair) || this.#reported.size >= maxReports) return undefined
    this.#reported.add(pair)
    return [[held, wanted], before]
  }

  /** The shortest path. */
  #path(from: string, to: string): readonly string[] | undefined {
    let paths: string[][] = [[from]]
    const seen = new Set([from])
    for (let step = 0; step < maxPath && paths.length > 0; step++) {
      const longer: string[][] = []
      for (const path of paths) {
        for (const next of this.#after.get(path.at(-1) ?? '') ?? []) {
          if (next === to) return [...path, next]
          if (seen.has(next) || seen.size > maxSearch) continue
          seen.add(next)
          longer.push([...path, next])
        }
      }
      paths = longer
    }
    return undefined
  }
}
