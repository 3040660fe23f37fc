/**
 * The waiters of one process in the store's queue of one name. Two bounds keep a thousand of them cheap:
 * - Only the first few watch the store. An exclusive claim cannot hold while an earlier one of this process waits, so whatever happens
 *   before the others cannot help them yet. They begin to watch when those before them have gone.
 * - Only some enter or leave at once. Otherwise a slow store would answer none of a thousand requests in time, and all would be sent again.
 */

export interface Bounds {
  /** How many of the exclusive claims watch at a time: while one is granted, the next is already watching. */
  readonly watching: number
  /** How many requests to enter or to leave the queue are in flight at a time. */
  readonly atOnce: number
}

interface Positioned {
  /** Its position in the store's queue. */
  readonly order: number
}

/** An exclusive claim in the queue, from its entry to its grant or its end. */
export interface LocalWaiter extends Positioned {
  /** Does it watch the store? Once true, always true. */
  readonly watches: boolean
  /** Called when it is to watch from now on, and by {@link LocalWaiters.wakeFirst}. */
  wake: (() => void) | undefined
  /** It is granted: nothing is left ahead of it. */
  granted(): void
  /** Those of these entries that may still be there, as far as this process knows. */
  mayExist<E extends Positioned>(entries: readonly E[]): readonly E[]
  leave(): void
}

interface Member extends LocalWaiter {
  watches: boolean
}

export class LocalWaiters {
  readonly #bounds: Bounds
  readonly #onIdle: () => void
  /** In the order of the store's queue. */
  readonly #members: Member[] = []
  /** Every entry before this position has gone. */
  #gone = Number.NEGATIVE_INFINITY
  #open = 0
  readonly #entering: (() => void)[] = []
  readonly #leaving: (() => void)[] = []

  constructor(bounds: Bounds, onIdle: () => void) {
    this.#bounds = bounds
    this.#onIdle = onIdle
  }

  /** Is any of them in the queue? */
  get some(): boolean {
    return this.#members.length > 0
  }

  /** @param order the position of its entry */
  join(order: number): LocalWaiter {
    // Only a store that has lost its history returns such a position, so the known state is worthless.
    if (order < this.#gone) this.#gone = Number.NEGATIVE_INFINITY
    const before = this.#members.findLastIndex((member) => member.order < order)
    const member: Member = {
      order,
      watches: before + 1 < this.#bounds.watching,
      wake: undefined,
      granted: () => {
        this.#gone = Math.max(this.#gone, order)
      },
      mayExist: (entries) => entries.filter((entry) => entry.order >= this.#gone),
      leave: () => this.#leave(member),
    }
    this.#members.splice(before + 1, 0, member)
    return member
  }

  /** A hold of this process has ended. */
  wakeFirst(): void {
    this.#members[0]?.wake?.()
  }

  /** Runs a request to enter the queue when there is room for it. */
  enter<T>(request: () => Promise<T>): Promise<T> {
    return this.#run(request, this.#entering)
  }

  /** The same for a request to leave it. These go first: others wait for them. */
  exit<T>(request: () => Promise<T>): Promise<T> {
    return this.#run(request, this.#leaving)
  }

  async #run<T>(request: () => Promise<T>, queue: (() => void)[]): Promise<T> {
    if (this.#open < this.#bounds.atOnce) this.#open++
    else await new Promise<void>((begin) => void queue.push(begin))
    try {
      return await request()
    } finally {
      const next = this.#leaving.shift() ?? this.#entering.shift()
      if (next !== undefined) next()
      else this.#open--
      this.#end()
    }
  }

  #leave(member: Member): void {
    const at = this.#members.indexOf(member)
    if (at < 0) return
    this.#members.splice(at, 1)
    const { watching } = this.#bounds
    const next = this.#members[watching - 1]
    if (at < watching && next?.watches === false) {
      next.watches = true
      next.wake?.()
    }
    this.#end()
  }

  #end(): void {
    if (this.#open === 0 && this.#members.length === 0) this.#onIdle()
  }
}

/** The waiters of all names. An entry exists only while somebody waits for its name, so look it up each time. */
export class AllLocalWaiters {
  readonly #bounds: Bounds
  readonly #names = new Map<string, LocalWaiters>()

  constructor(bounds: Bounds) {
    this.#bounds = bounds
  }

  of(name: string): LocalWaiters {
    const known = this.#names.get(name)
    if (known !== undefined) return known
    const made: LocalWaiters = new LocalWaiters(this.#bounds, () => {
      if (this.#names.get(name) === made) this.#names.delete(name)
    })
    this.#names.set(name, made)
    return made
  }

  /** A hold of this process has ended. */
  wakeFirst(name: string): void {
    this.#names.get(name)?.wakeFirst()
  }
}
