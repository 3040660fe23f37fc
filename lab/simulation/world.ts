/**
 * One world: virtual time, and all its events, in an order that a seed determines.
 *
 * Only events run, one at a time. What an event triggers (promises, ticks) runs to its end before the next event;
 * time is paused meanwhile. Two events at the same moment run in an order drawn from the seed.
 */

/** The next events of all worlds of this thread: one turn of the event loop settles every promise of them all. */
let steps: (() => void)[] = []

function nextTurn(step: () => void): void {
  if (steps.push(step) === 1) setImmediate(turn)
}

function turn(): void {
  const now = steps
  steps = []
  for (const step of now) step()
}

/** A scheduled event, unless it is cancelled. */
export interface ScheduledEvent {
  /** Idempotent; no effect once the event has happened. */
  cancel(): void
}

export interface World {
  /** Milliseconds since the world began. */
  readonly now: number
  /** A number in [0, 1). */
  readonly chance: () => number
  /** Calls `fn` at `at`, or now if that has passed. */
  at(at: number, fn: () => void): ScheduledEvent
  /** The same for a `fn` that settles no promise, as inside a server: nothing needs to finish before the next event. */
  atServer(at: number, fn: () => void): ScheduledEvent
  /** Runs until `done()`, until no event is left, or until `limit`; returns which. */
  run(done: () => boolean, limit: number): Promise<Ended>
}

export type Ended = 'done' | 'idle' | 'limit'

export function makeWorld(seed: number): World {
  const chance = createRandom(seed)
  const heap: QueuedEvent[] = []
  let now = 0

  const add = (at: number, settles: boolean, fn: () => void): ScheduledEvent => {
    const coming = new QueuedEvent(at > now ? at : now, chance(), settles, fn)
    push(heap, coming)
    return coming
  }

  /** Runs up to the next event that may have settled promises, or to the end. */
  function step(done: () => boolean, limit: number): Ended | undefined {
    while (!done()) {
      let next = heap[0]
      for (; next !== undefined && next.fn === undefined; next = heap[0]) pop(heap)
      if (next?.fn === undefined) return 'idle'
      if (next.at > limit) return 'limit'
      pop(heap)
      now = next.at
      const { fn } = next
      next.cancel()
      fn()
      if (next.settles) return undefined
    }
    return 'done'
  }

  return {
    get now() {
      return now
    },
    chance,
    at: (at, fn) => add(at, true, fn),
    atServer: (at, fn) => add(at, false, fn),
    run: (done, limit) =>
      new Promise((resolve, reject) => {
        const go = () => {
          try {
            const ended = step(done, limit)
            if (ended === undefined) nextTurn(go)
            else resolve(ended)
          } catch (error) {
            reject(error)
          }
        }
        nextTurn(go)
      }),
  }
}

class QueuedEvent implements ScheduledEvent {
  readonly at: number
  readonly tie: number
  readonly settles: boolean
  fn: (() => void) | undefined

  constructor(at: number, tie: number, settles: boolean, fn: () => void) {
    this.at = at
    this.tie = tie
    this.settles = settles
    this.fn = fn
  }

  cancel(): void {
    this.fn = undefined
  }
}

/** Small, fast, and good enough to shuffle with: the generator known as mulberry32. */
export function createRandom(seed: number): () => number {
  let state = seed | 0
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}

const before = (a: QueuedEvent, b: QueuedEvent) => a.at < b.at || (a.at === b.at && a.tie < b.tie)

function push(heap: QueuedEvent[], one: QueuedEvent): void {
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

function pop(heap: QueuedEvent[]): void {
  const last = heap.pop()
  if (last === undefined || heap.length === 0) return
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
}
