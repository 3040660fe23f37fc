/** Cells in MySQL: one statement to read, one to replace. MySQL cannot notify anybody of a change, so a process that waits for one polls. */
import type { Cell, CellChange, Cells } from '../../core/cell.js'
import { BackendError } from '../../core/errors.js'
import { orAborted } from '../../core/or-aborted.js'
import { AutoResetEvent } from '../kit/auto-reset-event.js'
import { number, text } from './client.js'
import { toFailure } from './failure.js'
import type { Runtime } from './runtime.js'
import * as sql from './sql-cells.js'

/** Poll interval of a cell, in ms. */
const pollInterval = 250

export function createCells(runtime: Runtime): Cells {
  const { tables } = runtime

  const assertOpen = () => {
    if (runtime.closed) throw new BackendError('mysql', 'these locks were closed', { closed: true })
  }

  async function told<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    assertOpen()
    signal.throwIfAborted()
    try {
      return await orAborted(work(), signal)
    } catch (error) {
      if (signal.aborted && error === signal.reason) throw error
      assertOpen()
      throw toFailure(error).error
    }
  }

  const look = async (key: string) => {
    const { rows } = await runtime.execute(sql.read(tables, key))
    return rows[0]
  }

  const write = async (key: string, change: CellChange): Promise<Cell | undefined> => {
    const value = change.value ?? ''
    for (let tries = 0; tries < 5; tries++) {
      const latest = await runtime.serverDeadline()
      const { id } = await runtime.execute(sql.write(tables, { key, ...change, latest }))
      if (id !== 0) return { version: id, value }
      const { rows, sent } = await runtime.execute(sql.last(tables, key))
      const [version, by, present, time] = rows[0] ?? []
      if (text(by) === change.id) return { version: number(version), value }
      if (rows.length === 0) await runtime.execute(sql.create(tables, key))
      else if (number(present) !== change.ifVersion) return undefined
      // Nobody was faster: the write came too late, by a server clock that is ahead of its last report.
      else runtime.noteServerTime(time, sent)
    }
    throw new Error('write not applied before its deadline')
  }

  const changed = async (key: string, version: number, signal: AbortSignal): Promise<void> => {
    const pause = new AutoResetEvent(runtime.clock)
    runtime.closeListeners.add(pause.set)
    signal.addEventListener('abort', pause.set)
    try {
      while (!signal.aborted) {
        assertOpen()
        const row = await look(key)
        if (number(row?.[0]) !== version) return
        const left = row === undefined ? Number.POSITIVE_INFINITY : number(row[2]) / 1000
        await pause.wait(Math.min(pollInterval * (0.8 + 0.4 * runtime.random()), left + 1))
      }
    } finally {
      runtime.closeListeners.delete(pause.set)
      signal.removeEventListener('abort', pause.set)
    }
  }

  return {
    read: (key, signal) =>
      told(signal, async () => {
        const row = await look(key)
        return row === undefined ? undefined : { version: number(row[0]), value: text(row[1]) }
      }),
    write: (key, change, signal) => told(signal, () => write(key, change)),
    changed: (key, version, signal) => told(signal, () => changed(key, version, signal)),
  }
}
