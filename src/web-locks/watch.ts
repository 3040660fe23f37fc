/** Receives the queue position of a request from the store and reports it to the order of the manager. */
import { setTimeout as pause } from 'node:timers/promises'
import type { QueuedCall } from './call-order.js'
import { parseNote, toNote } from './names.js'
import { checkInterval, type LockPair } from './queue-and-gate.js'
import type { LocksOfAnyDriver } from './types.js'

/**
 * Once the position in the store's queue is known, even the first one, the next request may be sent there too. A
 * thief keeps its turn until it has the lock: a second thief would take it for a request in the way. Returns a
 * function that ends the watch.
 */
export function watch(locks: LocksOfAnyDriver, pair: LockPair, place: QueuedCall): () => void {
  const note = toNote(pair.requestNote)
  let over = pair.requestNote.steal
  const watching = [
    locks.on('granted', (event) => void (event.note === note && !over && place.queued())),
    locks.on('waiting', ({ note: whose, blocked: { position, holder, error } }) => {
      if (whose !== note || over) return
      // A driver that keeps an order reports a position once it has one; it may report the holder before.
      const inLine = pair.options.fair ? position !== undefined : error === undefined
      if (inLine) place.queued()
      // While the store is failing nobody knows when the request will be queued, and the others need not wait for
      // that.
      if (error !== undefined || (inLine && (holder !== undefined || (position ?? 1) > 1))) place.decided()
      else if (inLine) void inTheWay(locks, pair, () => over).then(place.decided, place.decided)
    }),
  ]
  return () => {
    over = true
    for (const off of watching) off()
  }
}

/** The first in the queue may be about to be granted what is free: resolves once a holder is seen, or the watch is over. */
async function inTheWay(locks: LocksOfAnyDriver, pair: LockPair, over: () => boolean): Promise<void> {
  while (!over()) {
    const { holders } = await locks.inspect(pair.queueName)
    if (holders.some(({ note }) => parseNote(note)?.request !== pair.requestNote.request)) return
    await pause(checkInterval)
  }
}
