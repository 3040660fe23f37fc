/**
 * A set in insertion order that has no table while it has at most one member. A process has many names, and nearly all of
 * their queues have one holder, one request or one waiter; an empty `Set` takes 200 bytes.
 * `undefined` cannot be a member.
 */
export class SmallSet<T> implements Iterable<T> {
  #one: T | undefined
  /** All members, from the second one until the set is empty again. */
  #all: Set<T> | undefined

  get size(): number {
    if (this.#all !== undefined) return this.#all.size
    return this.#one === undefined ? 0 : 1
  }

  /** The oldest member. */
  get first(): T | undefined {
    if (this.#all === undefined) return this.#one
    const [first] = this.#all
    return first
  }

  add(member: T): void {
    if (this.#all !== undefined) this.#all.add(member)
    else if (this.#one === undefined) this.#one = member
    else if (this.#one !== member) {
      this.#all = new Set([this.#one, member])
      this.#one = undefined
    }
  }

  /** Returns false when it was not a member. */
  delete(member: T): boolean {
    if (this.#all !== undefined) {
      const was = this.#all.delete(member)
      if (this.#all.size === 0) this.#all = undefined
      return was
    }
    if (this.#one !== member) return false
    this.#one = undefined
    return true
  }

  /** The members at the time of the call, or, from the second one on, as a `Set` iterates. */
  [Symbol.iterator](): Iterator<T> {
    if (this.#all !== undefined) return this.#all.values()
    return (this.#one === undefined ? [] : [this.#one]).values()
  }
}
