/**
 * Ends attempts that were given up. Attempts of one name in one tick share one statement, however many callers hang up together. If the
 * server does not answer, the canceller retries in the background for as long as the attempts could block others.
 */
import type { Clock } from '../../core/clock.js'
import type { Connections } from './connections.js'
import { findCode, isLeft, toFailure } from './failure.js'
import type { Calls } from './sql.js'

export interface Canceller {
  /** Resolves after the first try. @param tombstone true if a request of the attempt may still arrive */
  cancel(attempt: string, name: string, ttl: number, tombstone: boolean): Promise<void>
  /** Waits for what is in flight, then stops trying. */
  close(): Promise<void>
}

/** How long the server refuses late requests of an abandoned attempt, in ms: longer than TCP keeps trying. */
const tombstoneTtl = 180_000
const maxBatch = 500
const again = 250
/** How long tries go on after `close()`, in ms: a row that somebody locks for a moment must not leave a queue entry behind. */
const closeTimeout = 4_000

interface Batch {
  readonly name: string
  readonly tombstone: boolean
  readonly attempts: string[]
  until: number
  readonly sent: Promise<void>
}

export function createCanceller(
  connections: Connections,
  calls: Calls,
  clock: Clock,
  commandTimeout: number,
): Canceller {
  const batches = new Map<string, Batch>()
  /** First tries and background retries. */
  const sending = new Set<Promise<void>>()
  const timers = new Map<Batch, () => void>()
  /** Clock reading at which all tries stop. */
  let ends = Number.POSITIVE_INFINITY
  let closed = false

  /** @param last true if a try since `close()` went unanswered */
  const send = async (batch: Batch, last = false): Promise<void> => {
    const { name, attempts, tombstone } = batch
    const values = [name, JSON.stringify(attempts), tombstone ? tombstoneTtl * 1000 : 0]
    try {
      await connections.execute(calls.cancel, values, commandTimeout)
    } catch (error) {
      const passes = toFailure(error).transient || isLeft(error)
      if (!passes || clock.now() >= Math.min(batch.until, ends)) return
      // A locked row will be free again. A server that does not answer gets one more try: a new connection may be slow to open.
      if (closed)
        return findCode(error) === '55P03' ? send(batch, last) : last ? undefined : send(batch, true)
      const retry = () => {
        timers.delete(batch)
        track(send(batch))
      }
      timers.set(batch, clock.at(clock.now() + again, retry, { ref: false }))
    }
  }

  /** Has `close()` wait for it. */
  const track = (sent: Promise<void>): void => {
    sending.add(sent)
    void sent.finally(() => sending.delete(sent))
  }

  const begin = (name: string, tombstone: boolean, key: string): Batch => {
    const attempts: string[] = []
    const sent = new Promise<void>((resolve) => {
      clock.soon(() => {
        if (batches.get(key) === batch) batches.delete(key)
        void send(batch).then(resolve)
      })
    })
    const batch = { name, tombstone, attempts, until: 0, sent }
    batches.set(key, batch)
    track(sent)
    return batch
  }

  return {
    cancel(attempt, name, ttl, tombstone) {
      const key = `${tombstone ? 1 : 0} ${name}`
      const present = batches.get(key)
      const batch =
        present !== undefined && present.attempts.length < maxBatch ? present : begin(name, tombstone, key)
      batch.attempts.push(attempt)
      batch.until = Math.max(batch.until, clock.now() + ttl)
      return batch.sent
    },
    async close() {
      closed = true
      ends = clock.now() + closeTimeout
      const late = [...timers].map(([batch, stop]) => {
        stop()
        return send(batch)
      })
      timers.clear()
      await Promise.allSettled([...sending, ...late])
    },
  }
}
