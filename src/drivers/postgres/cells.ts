/**
 * Cells in PostgreSQL: one statement per verb. To wait for a change, a process stores its channel with the cell; the next write
 * notifies that channel. A process that cannot listen polls a few times a second.
 */
import type { Cells } from '../../core/cell.js'
import { Hints } from '../kit/hints.js'
import type { Value } from './client.js'
import { toFailure } from './failure.js'
import type { Runtime } from './runtime.js'
import type { Call, Calls } from './sql.js'

/** Poll interval of a cell, in ms: where a notification may be lost, and where there is none. */
const pollInterval = { pushed: 5_000, polling: 250 }

export function createCells(open: () => Runtime): Cells {
  async function result(
    signal: AbortSignal,
    call: (calls: Calls) => Call,
    values: readonly Value[],
  ): Promise<unknown> {
    const runtime = open()
    signal.throwIfAborted()
    const { connections, calls, settings } = runtime
    const asked = connections.execute(call(calls), values, settings.commandTimeout)
    const { promise: aborted, stop } = rejectOnAbort(signal)
    try {
      return (await Promise.race([asked, aborted])).answer
    } catch (error) {
      asked.catch(() => undefined)
      if (signal.aborted && error === signal.reason) throw error
      // If the driver was closed meanwhile, this throws that error instead.
      open()
      throw toFailure(error).error
    } finally {
      stop()
    }
  }

  return {
    async read(key, signal) {
      const answer = await result(signal, (calls) => calls.cellRead, [key])
      if (answer === null) return undefined
      const [version, value] = answer as readonly [number, string]
      return { version, value }
    },

    async write(key, { ifVersion, value, ttl, id }, signal) {
      const micros = Number.isFinite(ttl) ? Math.ceil(ttl * 1000) : null
      const values = [key, ifVersion, id, micros, value ?? null]
      const version = await result(signal, (calls) => calls.cellWrite, values)
      return version === null ? undefined : { version: version as number, value: value ?? '' }
    },

    async changed(key, version, signal) {
      const runtime = open()
      runtime.subscriber.open()
      let wake = () => {}
      const hints = new Hints(runtime.clock, () => wake())
      for (;;) {
        open()
        const { channel } = runtime.subscriber
        const every = channel === null ? pollInterval.polling : pollInterval.pushed
        // Listens before the request is sent: a notification may arrive before the answer.
        const notified = subscribe(runtime, key, hints, signal)
        wake = notified.wake
        try {
          const values = [key, version, channel, 2 * every * 1000]
          const left = await result(signal, (calls) => calls.cellWatch, values)
          if (left === null) return
          hints.queryDone()
          const ms = Number(left) / 1000
          await notified.within(ms < 0 ? every : Math.min(ms + 1, every))
        } finally {
          hints.stop()
          notified.done()
        }
      }
    },
  }
}

function rejectOnAbort(signal: AbortSignal): { readonly promise: Promise<never>; stop(): void } {
  let aborted = () => {}
  const promise = new Promise<never>((_, reject) => {
    aborted = () => reject(signal.reason)
    signal.addEventListener('abort', aborted, { once: true })
  })
  promise.catch(() => undefined)
  return { promise, stop: () => signal.removeEventListener('abort', aborted) }
}

/** Listens for notifications about one cell. */
function subscribe(runtime: Runtime, key: string, hints: Hints, signal: AbortSignal) {
  const { clock, cellListeners } = runtime
  const { promise: aborted, stop: stopAborted } = rejectOnAbort(signal)
  let stop = () => {}
  let resolve = () => {}
  let reject: (error: unknown) => void = () => {}
  const notified = new Promise<void>((yes, no) => {
    resolve = yes
    reject = no
  })
  notified.catch(() => undefined)
  const listeners = cellListeners.get(key) ?? new Set()
  const listener = { changed: () => hints.notify(), closed: reject }
  cellListeners.set(key, listeners.add(listener))
  return {
    wake: resolve,
    within(ms: number): Promise<void> {
      stop = clock.at(clock.now() + ms, resolve)
      return Promise.race([notified, aborted])
    },
    done(): void {
      stop()
      stopAborted()
      if (listeners.delete(listener) && listeners.size === 0) cellListeners.delete(key)
    },
  }
}
