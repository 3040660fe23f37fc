/** The cells of a store, as one of its clients sees them. */
import type { Cells } from '../../core/cell.js'
import type { CellTable } from './cell-table.js'

/** @param waits functions that end the waits of this client when it closes; `closed`: the error once the client is closed */
export function createCells(
  table: CellTable,
  waits: Set<() => void>,
  closed: () => Error | undefined,
): Cells {
  const check = (signal: AbortSignal) => {
    const error = closed()
    if (error !== undefined) throw error
    signal.throwIfAborted()
  }
  return {
    async read(key, signal) {
      check(signal)
      return table.read(key)
    },
    async write(key, change, signal) {
      check(signal)
      return table.write(key, change)
    },
    async changed(key, version, signal) {
      check(signal)
      await new Promise<void>((resolve, reject) => {
        let take: () => void = () => undefined
        const done = () => {
          take()
          waits.delete(end)
          signal.removeEventListener('abort', end)
        }
        const end = () => {
          done()
          reject(closed() ?? signal.reason)
        }
        waits.add(end)
        signal.addEventListener('abort', end)
        take = table.watch(key, version, () => {
          done()
          resolve()
        })
      })
    },
  }
}
