/**
 * Virtual time for many clients and a server in one process. Nothing happens by itself: `step` takes the next thing that is due,
 * moves time there and does it. Clients can stand still, sleep and die; their clocks may run fast or slow.
 */
import type { Clock } from '../../test/support/inside.js'

interface Item {
  at: number
  /** Of what was due while its owner stood still: timers come before messages, as in Node. */
  rank: number
  readonly order: number
  readonly owner: number
  readonly timer: boolean
  fn: (() => void) | undefined
}

/** Owner of what belongs to nobody who can stand still: the server, the network, the scenario. */
export const nobody = -1

export class World {
  /** Milliseconds since the beginning. */
  now = 0
  steps = 0
  readonly #heap: Item[] = []
  #order = 0
  readonly #still: number[] = []
  readonly #dead: boolean[] = []
  readonly #live: number[] = []

  /** Does `fn` at `at`. @returns what cancels it */
  schedule(at: number, owner: number, fn: () => void, timer = false): () => void {
    const item: Item = { at: Math.max(at, this.now), rank: 0, order: this.#order++, owner, timer, fn }
    if (timer) this.#count(owner, 1)
    this.#push(item)
    return () => this.#drop(item)
  }

  /** Timers that are set for a client. */
  pending(owner: number): number {
    return this.#live[owner + 1] ?? 0
  }

  stall(owner: number, ms: number): void {
    this.#still[owner] = Math.max(this.#still[owner] ?? 0, this.now + ms)
  }

  kill(owner: number): void {
    this.#dead[owner] = true
  }

  isDead(owner: number): boolean {
    return this.#dead[owner] === true
  }

  /** False: nothing is left. */
  step(): boolean {
    for (;;) {
      const item = this.#pop()
      if (item === undefined) return false
      const { fn, owner } = item
      if (fn === undefined) continue
      this.now = Math.max(this.now, item.at)
      const still = this.#still[owner] ?? 0
      if (this.#dead[owner] === true) this.#drop(item)
      else if (still > this.now) {
        item.at = still
        item.rank = item.timer ? 1 : 2
        this.#push(item)
      } else {
        this.#drop(item)
        this.steps++
        fn()
        return true
      }
    }
  }

  #drop(item: Item): void {
    if (item.fn === undefined) return
    item.fn = undefined
    if (item.timer) this.#count(item.owner, -1)
  }

  #count(owner: number, by: number): void {
    this.#live[owner + 1] = (this.#live[owner + 1] ?? 0) + by
  }

  #push(item: Item): void {
    const heap = this.#heap
    let at = heap.length
    heap.push(item)
    while (at > 0) {
      const parent = (at - 1) >> 1
      const above = heap[parent] as Item
      if (!before(item, above)) break
      heap[at] = above
      at = parent
    }
    heap[at] = item
  }

  #pop(): Item | undefined {
    const heap = this.#heap
    const first = heap[0]
    const last = heap.pop()
    if (last === undefined || heap.length === 0) return first
    let at = 0
    for (;;) {
      let child = 2 * at + 1
      if (child >= heap.length) break
      const right = heap[child + 1]
      if (right !== undefined && before(right, heap[child] as Item)) child++
      const below = heap[child] as Item
      if (!before(below, last)) break
      heap[at] = below
      at = child
    }
    heap[at] = last
    return first
  }
}

function before(a: Item, b: Item): boolean {
  if (a.at !== b.at) return a.at < b.at
  return a.rank !== b.rank ? a.rank < b.rank : a.order < b.order
}

export interface ClientClock extends Clock {
  /** Its milliseconds for each of the world's. */
  readonly rate: number
  /** It has stood still for so long without being told. */
  slept(ms: number): void
}

export function clientClock(world: World, owner: number, start: number, rate: number): ClientClock {
  let offset = start
  let unnoticed = 0
  const now = () => offset + world.now * rate
  return {
    rate,
    now,
    noticeSleep() {
      const noticed = unnoticed
      offset += noticed
      unnoticed = 0
      return noticed
    },
    slept(ms) {
      offset -= ms * rate
      unnoticed += ms * rate
    },
    at(at, fn) {
      let cancel = () => {}
      const arm = () => {
        if (now() >= at) return fn()
        // A clock that was put back by sleep is asked again, as a real timer is.
        cancel = world.schedule(world.now + (at - now()) / rate + 1e-6, owner, arm, true)
      }
      cancel = world.schedule(world.now + Math.max(0, at - now()) / rate + 1e-6, owner, arm, true)
      return () => cancel()
    },
    soon: (fn) => void world.schedule(world.now, owner, fn, true),
  }
}
