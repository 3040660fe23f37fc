/**
 * Cells: small shared values beside the locks, each replaced in one step. Latches, barriers, results of `once`, the
 * values of leaders and the limits of semaphores are kept in them. A cell knows nothing of locks, and a lock nothing
 * of cells: where both are needed, the token in the value identifies the hold that wrote it.
 */

/** The content of a cell. */
export interface Cell {
  /** A safe integer above 0. Grows with every change of this key and never repeats, not even after the cell was removed. */
  readonly version: number
  readonly value: string
}

export interface CellChange {
  /** The version to replace; 0: write only if there is no cell. */
  readonly ifVersion: number
  /** At most {@link maxCellBytes} of UTF-8, without U+0000; undefined removes the cell. */
  readonly value: string | undefined
  /** Milliseconds after this write at which the store removes the cell, by the store's clock; Infinity: never. */
  readonly ttl: number
  /** 128 random bits in hex, fresh for every change: the store recognises a repeated request by it. */
  readonly id: string
}

/**
 * Keys follow the rules for names of locks, up to {@link maxKeyBytes}, and never collide with them: the mutex `x` and
 * the cell `x` are two things. All three methods reject with BackendError when the store cannot be used, `transient` where
 * the same request may succeed soon, and with the signal's reason when the signal aborts first.
 */
export interface Cells {
  /** The present cell: at least as new as anything that was written or read before the call. */
  read(key: string, signal: AbortSignal): Promise<Cell | undefined>
  /**
   * Replaces the value if the version is still `ifVersion`, and resolves with the new cell (the value of a removed one is
   * ''); undefined if somebody else was faster. A repeated change gets the same reply for as long as the cell is
   * still what that change made; later the reply may be undefined, and the change is never carried out twice. The
   * reply to a removal may be undefined when nothing is left.
   */
  write(key: string, change: CellChange, signal: AbortSignal): Promise<Cell | undefined>
  /**
   * Resolves when `key` may have left `version` (0: there was none), by a write, by removal or by its end; at once
   * when it already has. It may resolve without a change, but not often. Pushed where the store can; else the driver
   * polls, at most a few times a second.
   */
  changed(key: string, version: number, signal: AbortSignal): Promise<void>
}

/** The longest value in bytes of UTF-8. */
export const maxCellBytes: number = 64 * 1024

/** The longest key in bytes of UTF-8: the longest name of a lock plus its purpose. */
export const maxKeyBytes = 544
