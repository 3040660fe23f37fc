/** The broker's clients that wait for a cell to change. */
import type { CellTable } from '../memory/cell-table.js'
import type { Client, Connection } from './clients.js'
import type { Call } from './protocol.js'

export interface Watches {
  /** Answers the call when the cell leaves that version. The same watch, repeated after a reconnect, replaces the first. */
  add(client: Client, call: Extract<Call, readonly [number, 'watch', ...unknown[]]>): void
  drop(watch: string): void
  /** A connection has ended: drops its watches. */
  clientLeft(connection: Connection): void
}

export function createWatches(cells: CellTable): Watches {
  const watches = new Map<string, { readonly connection: Connection; readonly stop: () => void }>()

  function drop(watch: string): void {
    watches.get(watch)?.stop()
    watches.delete(watch)
  }

  return {
    drop,
    add({ connection }, [id, , key, version, watch]) {
      drop(watch)
      if (connection === undefined) return
      let notified = false
      const stop = cells.watch(key, version, () => {
        notified = true
        watches.delete(watch)
        connection.send([id, 'done'])
      })
      if (!notified) watches.set(watch, { connection, stop })
    },
    clientLeft(connection) {
      for (const [watch, one] of watches) if (one.connection === connection) drop(watch)
    },
  }
}
