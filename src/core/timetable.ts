/**
 * Many moments, one timer: renewals and deadlines of thousands of leases cost one armed timer, and everything that is
 * due in the same millisecond runs in the same tick, so that a driver can put it into one round trip.
 */
import type { Clock } from './clock.js'

export interface Entry {
  /** Where it stands, kept by the timetable: undefined while it is not set. */
  slot: number | undefined
  /** Called once, not before the moment it was set for. May set itself again. */
  due(now: number): void
}

export class Timetable {
  readonly #clock: Clock
  readonly #slots = new Map<number, Set<Entry>>()
  #size = 0
  /**
   * Binary heap of slot times. A slot that has been emptied stays until its turn, and so does the armed timer: taking a
   * lease out must cost next to nothing, because most are released long before they are due.
   */
  readonly #heap: number[] = []
  #armed = Number.POSITIVE_INFINITY
  #disarm: (() => void) | undefined

  constructor(clock: Clock) {
    this.#clock = clock
  }

  get size(): number {
    return this.#size
  }

  /** Sets `entry` for `at`, instead of what it was set for before. `Infinity` takes it out. */
  set(entry: Entry, at: number): void {
    const slot = at === Number.POSITIVE_INFINITY ? undefined : Math.ceil(at)
    if (entry.slot === slot) return
    if (entry.slot !== undefined) {
      this.#slots.get(entry.slot)?.delete(entry)
      this.#size--
    }
    entry.slot = slot
    if (slot === undefined) return
    this.#size++
    const entries = this.#slots.get(slot)
    if (entries !== undefined) {
      entries.add(entry)
      return
    }
    this.#slots.set(slot, new Set([entry]))
    push(this.#heap, slot)
    this.#arm()
  }

  remove(entry: Entry): void {
    this.set(entry, Number.POSITIVE_INFINITY)
  }

  /** Takes everything out and disarms the timer. */
  clear(): void {
    for (const entries of this.#slots.values()) for (const entry of entries) entry.slot = undefined
    this.#size = 0
    this.#slots.clear()
    this.#heap.length = 0
    this.#arm()
  }

  #arm(): void {
    const next = this.#heap[0] ?? Number.POSITIVE_INFINITY
    if (next === this.#armed) return
    this.#disarm?.()
    this.#armed = next
    // A lease alone must not keep the process alive.
    this.#disarm =
      next === Number.POSITIVE_INFINITY ? undefined : this.#clock.at(next, () => this.#tick(), { ref: false })
  }

  #tick(): void {
    this.#armed = Number.POSITIVE_INFINITY
    this.#disarm = undefined
    this.#clock.noticeSleep()
    const now = this.#clock.now()
    for (let slot = this.#heap[0]; slot !== undefined && slot <= now; slot = this.#heap[0]) {
      pop(this.#heap)
      const entries = this.#slots.get(slot)
      this.#slots.delete(slot)
      for (const entry of entries ?? []) {
        entry.slot = undefined
        this.#size--
        entry.due(now)
      }
    }
    this.#arm()
  }
}

function push(heap: number[], value: number): void {
  let at = heap.length
  heap.push(value)
  while (at > 0) {
    const parent = (at - 1) >> 1
    const above = heap[parent] ?? 0
    if (above <= value) break
    heap[at] = above
    at = parent
  }
  heap[at] = value
}

function pop(heap: number[]): void {
  const last = heap.pop()
  if (last === undefined || heap.length === 0) return
  let at = 0
  for (;;) {
    let child = 2 * at + 1
    if (child >= heap.length) break
    if ((heap[child + 1] ?? Number.POSITIVE_INFINITY) < (heap[child] ?? 0)) child++
    const below = heap[child] ?? 0
    if (below >= last) break
    heap[at] = below
    at = child
  }
  heap[at] = last
}
