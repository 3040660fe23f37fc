/**
 * In which order locks are taken inside one another. Two orders that contradict each other are a deadlock that has not
 * happened yet; they are told of the first time they are seen, whether anybody had to wait or not.
 *
 * An edge `a → b`: somebody asked for b inside `run` of a. Known by name and for one `createLocks`; semaphores and tries
 * are left out, because neither has to wait for one particular holder.
 */

/** Two orders that contradict each other, each from the lock that was held to the one that was asked for. */
export type Orders = readonly [now: readonly string[], before: readonly string[]]

/** Beyond that the oldest names are forgotten: names like `order:12345` are used once. */
const namesKept = 10_000
/** A contradiction over more steps than that is not looked for. */
const longestPath = 8

export class LockOrder {
  readonly #after = new Map<string, Set<string>>()
  readonly #told = new Set<string>()

  /** `held`: the names that the context is inside of, the innermost first. */
  note(held: readonly string[], wanted: string): Orders | undefined {
    let found: Orders | undefined
    for (const name of held) {
      if (name === wanted) continue
      const next = this.#after.get(name)
      if (next?.has(wanted) === true) continue
      if (next === undefined) this.#after.set(name, new Set([wanted]))
      else next.add(wanted)
      found ??= this.#against(name, wanted)
    }
    const [oldest] = this.#after.keys()
    if (this.#after.size > namesKept && oldest !== undefined) this.#after.delete(oldest)
    return found
  }

  #against(held: string, wanted: string): Orders | undefined {
    const before = this.#path(wanted, held)
    if (before === undefined) return undefined
    const pair = JSON.stringify([held, wanted].sort())
    if (this.#told.has(pair) || this.#told.size >= namesKept) return undefined
    this.#told.add(pair)
    return [[held, wanted], before]
  }

  /** The shortest way. */
  #path(from: string, to: string): readonly string[] | undefined {
    let paths: string[][] = [[from]]
    const seen = new Set([from])
    for (let step = 0; step < longestPath && paths.length > 0; step++) {
      const longer: string[][] = []
      for (const path of paths) {
        for (const next of this.#after.get(path.at(-1) ?? '') ?? []) {
          if (next === to) return [...path, next]
          if (seen.has(next)) continue
          seen.add(next)
          longer.push([...path, next])
        }
      }
      paths = longer
    }
    return undefined
  }
}
