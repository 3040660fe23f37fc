/** Receives the queue position of a request from the store and reports it to the order of the manager. */
import { setTimeout as pause } from 'node:timers/promises'
import type { Place } from './call-order.js'
import { noteOf, readNote } from './names.js'
import { betweenLooks, type Door } from './queue-and-gate.js'
import type { LocksOfAnyDriver } from './types.js'

/**
 * Once the position in the store's queue is known, even the first one, the next request may be sent there too. A
 * thief keeps its turn until it has the lock: a second thief would take it for a request in the way. Returns a
 * function that ends the watch.
 */
export function watch(locks: LocksOfAnyDriver, door: Door, place: Place): () => void {
  const note = noteOf(door.mark)
  let over = door.mark.steal
  const watching = [
    locks.on('granted', (event) => void (event.note === note && !over && place.taken())),
    locks.on('waiting', ({ note: whose, blocked: { position, holder, trouble } }) => {
      if (whose !== note || over) return
      // A driver that keeps an order reports a position once it has one; it may report the holder before.
      const inLine = door.options.fair ? position !== undefined : trouble === undefined
      if (inLine) place.taken()
      // While the store is failing nobody knows when the request will be queued, and the others need not wait for
      // that.
      if (trouble !== undefined || (inLine && (holder !== undefined || (position ?? 1) > 1))) place.decided()
      else if (inLine) void inTheWay(locks, door, () => over).then(place.decided, place.decided)
    }),
  ]
  return () => {
    over = true
    for (const off of watching) off()
  }
}

/** The first in the queue may be about to be granted what is free: resolves once a holder is seen, or the watch is over. */
async function inTheWay(locks: LocksOfAnyDriver, door: Door, over: () => boolean): Promise<void> {
  while (!over()) {
    const { holders } = await locks.inspect(door.lineName)
    if (holders.some(({ note }) => readNote(note)?.request !== door.mark.request)) return
    await pause(betweenLooks)
  }
}
