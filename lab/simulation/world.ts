/**
 * One world: virtual time, and everything that happens in it, in an order that a seed decides.
 *
 * Nothing runs but events, one at a time. What an event sets free (promises, ticks) runs to its end before the next one;
 * time stands still meanwhile. Two events at the same moment run in an order drawn from the seed.
 */

/** What all worlds of this process wait for that have an event behind them: one turn of the event loop does for them all. */
let turn: Promise<void> | undefined

/** Resolves when all promises and ticks that can settle have settled. */
export function settled(): Promise<void> {
  turn ??= new Promise((resolve) => {
    setImmediate(() => {
      turn = undefined
      resolve()
    })
  })
  return turn
}

export interface World {
  /** Milliseconds since the world began. */
  readonly now: number
  /** A number in [0, 1). */
  readonly chance: () => number
  /** Calls `fn` at `at`, or now if that has passed. Returns what takes it back. */
  at(at: number, fn: () => void): () => void
  /** Runs until `done()`, or until nothing is left to happen, or until `limit`. Says which. */
  run(done: () => boolean, limit: number): Promise<'done' | 'idle' | 'limit'>
  /** Events that have not happened yet. */
  readonly pending: number
}

interface Happening {
  readonly at: number
  readonly tie: number
  fn: (() => void) | undefined
}

export function makeWorld(seed: number): World {
  const chance = dice(seed)
  const heap: Happening[] = []
  let now = 0
  let pending = 0

  const at: World['at'] = (at, fn) => {
    const happening: Happening = { at: Math.max(at, now), tie: chance(), fn }
    push(heap, happening)
    pending++
    return () => {
      if (happening.fn === undefined) return
      happening.fn = undefined
      pending--
    }
  }

  async function run(done: () => boolean, limit: number): Promise<'done' | 'idle' | 'limit'> {
    await settled()
    while (!done()) {
      const next = pop(heap)
      if (next === undefined) return 'idle'
      const { fn } = next
      if (fn === undefined) continue
      if (next.at > limit) {
        push(heap, next)
        return 'limit'
      }
      now = next.at
      next.fn = undefined
      pending--
      fn()
      await settled()
    }
    return 'done'
  }

  return {
    get now() {
      return now
    },
    get pending() {
      return pending
    },
    chance,
    at,
    run,
  }
}

/** Small, fast, and good enough to shuffle with: the generator known as mulberry32. */
export function dice(seed: number): () => number {
  let state = seed | 0
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}

const before = (a: Happening, b: Happening) => a.at < b.at || (a.at === b.at && a.tie < b.tie)

function push(heap: Happening[], one: Happening): void {
  let at = heap.length
  heap.push(one)
  while (at > 0) {
    const parent = (at - 1) >> 1
    const above = heap[parent]
    if (above === undefined || !before(one, above)) break
    heap[at] = above
    at = parent
  }
  heap[at] = one
}

function pop(heap: Happening[]): Happening | undefined {
  const first = heap[0]
  const last = heap.pop()
  if (last === undefined || heap.length === 0) return first
  let at = 0
  for (;;) {
    const left = heap[2 * at + 1]
    const right = heap[2 * at + 2]
    if (left === undefined) break
    const child = right !== undefined && before(right, left) ? right : left
    if (!before(child, last)) break
    heap[at] = child
    at = child === left ? 2 * at + 1 : 2 * at + 2
  }
  heap[at] = last
  return first
}
