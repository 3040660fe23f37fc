/** Cells in a store that supports watches. Shared by these drivers: when to read again, and when to stop. */
import type { Cell, CellChange, Cells } from '../../core/cell.js'
import type { SessionPool } from './sessions/session-pool.js'

export interface CellStore {
  read(key: string): Promise<Cell | undefined>
  write(key: string, change: CellChange): Promise<Cell | undefined>
  /** Calls `wake` when `key` may have left `version`, or can no longer be watched; resolves with how to stop. Undefined: it has left already. */
  watch(key: string, version: number, wake: () => void): Promise<(() => void) | undefined>
  /** Converts an error into the one thrown to the core. */
  toError(error: unknown): Error
}

/** How long a silent watch is trusted before the cell is read again, in ms: the watch may hang. */
const pollInterval = 30_000

export function watchedCells(pool: SessionPool, store: CellStore): Cells {
  const check = (signal: AbortSignal) => {
    pool.assertOpen()
    signal.throwIfAborted()
  }
  /** The work continues when the signal ends the wait for it; its result then goes to `late`. */
  const during = async <T>(
    signal: AbortSignal,
    work: () => Promise<T>,
    late?: (result: T) => void,
  ): Promise<T> => {
    check(signal)
    let end = () => {}
    const aborted = new Promise<never>((_, reject) => {
      end = () => reject(signal.reason)
      signal.addEventListener('abort', end)
    })
    const result = work().catch((error) => {
      throw store.toError(error)
    })
    try {
      return await Promise.race([result, aborted])
    } catch (error) {
      result.then(late, () => undefined)
      throw error
    } finally {
      signal.removeEventListener('abort', end)
    }
  }
  return {
    read: (key, signal) => during(signal, () => store.read(key)),
    write: (key, change, signal) => during(signal, () => store.write(key, change)),
    async changed(key, version, signal) {
      check(signal)
      const event = pool.registerEvent()
      signal.addEventListener('abort', event.set)
      try {
        for (;;) {
          const stop = await during(
            signal,
            () => store.watch(key, version, event.set),
            (left) => left?.(),
          )
          if (stop === undefined) return
          try {
            await event.wait(pollInterval)
          } finally {
            stop()
          }
          check(signal)
        }
      } finally {
        signal.removeEventListener('abort', event.set)
        pool.unregister(event)
      }
    },
  }
}

/** Length of the change id, which is stored before the value, so that a repeated change is recognised. */
export const idLength = 32

export function encodeCell(id: string, value: string): string {
  return Buffer.from(id + value).toString('base64')
}

export function decodeCell(stored: string, version: number): { readonly id: string; readonly cell: Cell } {
  const text = Buffer.from(stored, 'base64').toString()
  return { id: text.slice(0, idLength), cell: { version, value: text.slice(idLength) } }
}
