/**
 * Cells: small shared values beside the locks, each replaced in one step. Latches, barriers, results of `once`, the values
 * of leaders and the limits of semaphores are kept in them. A cell knows nothing of locks, and a lock nothing of cells:
 * where both are needed, the value says by its token which hold wrote it.
 */

/** What is in a cell. */
export interface Cell {
  /** A safe integer above 0. Grows with every change of this key and never repeats, also after the cell was removed. */
  readonly version: number
  readonly value: string
}

export interface CellChange {
  /** The version that is to be replaced; 0: only where there is none. */
  readonly seen: number
  /** At most {@link maxCellBytes} of UTF-8, without U+0000; undefined removes the cell. */
  readonly value: string | undefined
  /** Milliseconds after this write at which the cell is gone by itself, by the store's clock; Infinity: never. */
  readonly keep: number
  /** 128 random bits in hex, fresh for every change: by it the store knows a request that comes twice. */
  readonly id: string
}

/**
 * Keys are as the names of locks, up to {@link maxKeyBytes}, and never meet them: the mutex `x` and the cell `x` are two things.
 * All three reject with BackendError when the store cannot be used, and with the signal's reason when that aborts first.
 */
export interface Cells {
  /** What is in the cell now: at least as new as anything that was written or read before the call. */
  read(key: string, signal: AbortSignal): Promise<Cell | undefined>
  /**
   * Replaces the value if the version is still `seen`, and gives the new cell (the value of a removed one is ''); undefined
   * if somebody was faster. A change that is sent twice is answered the same as long as the cell is still what it
   * made; later it may be answered undefined, and is never carried out twice. A removal may be answered undefined when
   * nothing is left.
   */
  write(key: string, change: CellChange, signal: AbortSignal): Promise<Cell | undefined>
  /**
   * Resolves when `key` may have left `version` (0: there was none), by a write, by removal or by its end; at once when it
   * has. It may resolve for nothing, but not often. Pushed where the store can; else it looks, at most a few times a second.
   */
  changed(key: string, version: number, signal: AbortSignal): Promise<void>
}

/** The longest value in bytes of UTF-8. */
export const maxCellBytes: number = 64 * 1024

/** The longest key in bytes of UTF-8: the longest name of a lock, and what it is for. */
export const maxKeyBytes = 544
