/**
 * Many moments, one timer: renewals and deadlines of thousands of leases cost one armed timer, and everything due in
 * the same millisecond runs in the same tick, so that a driver can put it into one round trip. If that takes long,
 * the event loop turns in between: ten thousand leases acquired together are due together.
 */
import type { Clock } from './clock.js'

export interface Entry {
  /** Its slot, kept by the timer queue: undefined while it is not set. */
  slot: number | undefined
  /** Called once, not before the moment it was set for. May set itself again. */
  onDue(now: number): void
}

/** Fewer are not worth a pass over all slots. */
const maxEmptySlots = 1_000

/** Longest time spent on due entries before the event loop may turn, in ms. */
const turn = 5

export class TimerQueue {
  readonly #clock: Clock
  readonly #slots = new Map<number, Set<Entry>>()
  #size = 0
  /** Slots that have no entry any more. */
  #emptied = 0
  /**
   * Binary heap of slot times. An emptied slot stays until its turn, and so does the armed timer: removing a lease
   * must cost next to nothing, because most are released long before they are due.
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

  /** Moments that were set and have not come. */
  get slots(): number {
    return this.#heap.length
  }

  /** Sets `entry` for `at`, instead of its earlier moment. `Infinity` removes it. */
  set(entry: Entry, at: number): void {
    const slot = at === Number.POSITIVE_INFINITY ? undefined : Math.ceil(at)
    if (entry.slot === slot) return
    if (entry.slot !== undefined) {
      const left = this.#slots.get(entry.slot)
      left?.delete(entry)
      this.#size--
      if (left?.size === 0) this.#emptied++
    }
    entry.slot = slot
    if (this.#emptied > maxEmptySlots && this.#emptied > this.#heap.length / 2) this.#compact()
    if (slot === undefined) return
    this.#size++
    const entries = this.#slots.get(slot)
    if (entries !== undefined) {
      if (entries.size === 0) this.#emptied--
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

  /** Removes everything and disarms the timer. */
  clear(): void {
    for (const entries of this.#slots.values()) {
      for (const entry of entries) entry.slot = undefined
      entries.clear()
    }
    this.#size = 0
    this.#emptied = 0
    this.#slots.clear()
    this.#heap.length = 0
    this.#arm()
  }

  /** Leases with a long ttl that were released early would otherwise leave their slots until that ttl has passed. */
  #compact(): void {
    this.#heap.length = 0
    this.#emptied = 0
    for (const [slot, entries] of [...this.#slots]) {
      if (entries.size === 0) this.#slots.delete(slot)
      else push(this.#heap, slot)
    }
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

  /** Not by a timer: where this thread gets no processor for a moment, that is due again before the loop has read anything. */
  #tickSoon(slot: number): void {
    this.#disarm?.()
    this.#disarm = undefined
    this.#armed = slot
    this.#clock.soon(() => {
      this.#disarm?.()
      this.#tick()
    })
  }

  #tick(): void {
    this.#armed = Number.POSITIVE_INFINITY
    this.#disarm = undefined
    this.#clock.noticeSleep()
    const now = this.#clock.now()
    for (let slot = this.#heap[0]; slot !== undefined && slot <= now; slot = this.#heap[0]) {
      for (const entry of this.#slots.get(slot) ?? []) {
        if (this.#clock.now() - now >= turn) return this.#tickSoon(slot)
        this.remove(entry)
        entry.onDue(now)
      }
      // An entry that was due may have cleared or tidied the rest.
      if (this.#heap[0] !== slot) continue
      pop(this.#heap)
      this.#slots.delete(slot)
      this.#emptied--
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
