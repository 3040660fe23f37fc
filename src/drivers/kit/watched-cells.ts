/** Cells in a store that can be watched: what is alike in all of them is when to look, and when to stop. */
import type { Cell, CellChange, Cells } from '../../core/cell.js'
import type { SessionDesk } from './session-desk.js'

export interface CellStore {
  read(key: string): Promise<Cell | undefined>
  write(key: string, change: CellChange): Promise<Cell | undefined>
  /** Rings when `key` may have left `version`, or cannot be watched any more; gives how to stop. Undefined: it has left already. */
  watch(key: string, version: number, ring: () => void): Promise<(() => void) | undefined>
  /** What is thrown to the core. */
  told(error: unknown): Error
}

/** A watch that hangs in silence is not believed for longer, in ms. */
const lookAgain = 30_000

export function watchedCells(desk: SessionDesk, store: CellStore): Cells {
  const check = (signal: AbortSignal) => {
    desk.assertOpen()
    signal.throwIfAborted()
  }
  /** The work goes on when the signal ends the wait for it: what it brings is then handed to `late`. */
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
      throw store.told(error)
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
      const bell = desk.bell()
      signal.addEventListener('abort', bell.ring)
      try {
        for (;;) {
          const stop = await during(
            signal,
            () => store.watch(key, version, bell.ring),
            (left) => left?.(),
          )
          if (stop === undefined) return
          try {
            await bell.rest(lookAgain)
          } finally {
            stop()
          }
          check(signal)
        }
      } finally {
        signal.removeEventListener('abort', bell.ring)
        desk.quit(bell)
      }
    },
  }
}

/** The id of the change stands before the value, so that a change that comes twice is known. */
export const idLength = 32

export function encodeCell(id: string, value: string): string {
  return Buffer.from(id + value).toString('base64')
}

export function decodeCell(stored: string, version: number): { readonly id: string; readonly cell: Cell } {
  const text = Buffer.from(stored, 'base64').toString()
  return { id: text.slice(0, idLength), cell: { version, value: text.slice(idLength) } }
}
