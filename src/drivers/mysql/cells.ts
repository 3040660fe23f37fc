/** Cells in MySQL: one statement to read, one to replace. MySQL cannot notify anybody of a change, so a process that waits for one polls. */
import type { Cell, CellChange, Cells } from '../../core/cell.js'
import { BackendError } from '../../core/errors.js'
import { unlessAborted } from '../../core/unless-aborted.js'
import { AutoResetEvent } from '../kit/auto-reset-event.js'
import { number, text } from './client.js'
import { troubleOf } from './failure.js'
import type { Desk } from './runtime.js'
import * as sql from './sql-cells.js'

/** Poll interval of a cell, in ms. */
const lookEvery = 250

export function cellsOver(desk: Desk): Cells {
  const { tables } = desk

  const assertOpen = () => {
    if (desk.closed) throw new BackendError('mysql', 'these locks were closed', { closed: true })
  }

  async function told<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    assertOpen()
    signal.throwIfAborted()
    try {
      return await unlessAborted(work(), signal)
    } catch (error) {
      if (signal.aborted && error === signal.reason) throw error
      assertOpen()
      throw troubleOf(error).error
    }
  }

  const look = async (key: string) => {
    const { rows } = await desk.ask(sql.read(tables, key))
    return rows[0]
  }

  const write = async (key: string, change: CellChange): Promise<Cell | undefined> => {
    const value = change.value ?? ''
    for (let tries = 0; tries < 5; tries++) {
      const latest = await desk.latest()
      const { id } = await desk.ask(sql.write(tables, { key, ...change, latest }))
      if (id !== 0) return { version: id, value }
      const { rows, sent } = await desk.ask(sql.last(tables, key))
      const [version, by, present, time] = rows[0] ?? []
      if (text(by) === change.id) return { version: number(version), value }
      if (rows.length === 0) await desk.ask(sql.create(tables, key))
      else if (number(present) !== change.seen) return undefined
      // Nobody was faster: the write came too late, by a server clock that is ahead of its last report.
      else desk.heard(time, sent)
    }
    throw new Error('each time it was sent, the change came too late to be wanted any more')
  }

  const changed = async (key: string, version: number, signal: AbortSignal): Promise<void> => {
    const pause = new AutoResetEvent(desk.clock)
    desk.pauses.add(pause.set)
    signal.addEventListener('abort', pause.set)
    try {
      while (!signal.aborted) {
        assertOpen()
        const row = await look(key)
        if (number(row?.[0]) !== version) return
        const left = row === undefined ? Number.POSITIVE_INFINITY : number(row[2]) / 1000
        await pause.wait(Math.min(lookEvery * (0.8 + 0.4 * desk.random()), left + 1))
      }
    } finally {
      desk.pauses.delete(pause.set)
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
