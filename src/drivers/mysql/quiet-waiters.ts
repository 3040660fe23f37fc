/**
 * The waiters that poll nothing, because others of this process are before them in their queues: one statement a second refreshes the entries
 * of all of them, and another shows whether one was removed.
 */
import type { BackendError } from '../../core/errors.js'
import { number } from './client.js'
import { findErrno, toFailure } from './failure.js'
import type { Runtime } from './runtime.js'
import * as sql from './sql.js'

/** How often a waiter refreshes its queue entry, in ms: a third of the time after which it is presumed dead. */
export const announceEvery = 1_000
/** So many tickets go into one statement. */
const mostAtOnce = 1_000

interface Quiet {
  /** Its entry is gone. */
  onGone(): void
  onFailure(error: BackendError): void
}

export class QuietWaiters {
  readonly #runtime: Pick<Runtime, 'execute' | 'tables' | 'schedule' | 'background'>
  /** By ticket. */
  readonly #all = new Map<number, Quiet>()
  #scheduled = false

  constructor(runtime: Pick<Runtime, 'execute' | 'tables' | 'schedule' | 'background'>) {
    this.#runtime = runtime
  }

  add(ticket: number, waiter: Quiet): void {
    this.#all.set(ticket, waiter)
    this.#schedule()
  }

  delete(ticket: number): void {
    this.#all.delete(ticket)
  }

  #schedule(): void {
    if (this.#scheduled || this.#all.size === 0) return
    this.#scheduled = true
    this.#runtime.schedule(announceEvery, () => this.#runtime.background(this.#refresh()))
  }

  async #refresh(): Promise<void> {
    const tickets = [...this.#all.keys()]
    try {
      for (let i = 0; i < tickets.length; i += mostAtOnce)
        await this.#refreshSome(tickets.slice(i, i + mostAtOnce))
    } catch (error) {
      const failure = toFailure(error)
      for (const { onFailure } of this.#all.values()) onFailure(failure.error)
    } finally {
      this.#scheduled = false
      this.#schedule()
    }
  }

  async #refreshSome(tickets: readonly number[]): Promise<void> {
    const { execute, tables } = this.#runtime
    try {
      await execute(sql.refreshAll(tables, tickets))
    } catch (error) {
      // Where `sql_safe_updates` is on, the server takes no statement for many rows, but those for one.
      if (findErrno(error) !== 1175) throw error
      for (const ticket of tickets) await execute(sql.refresh(tables, ticket))
    }
    const { rows } = await execute(sql.existing(tables, tickets))
    const there = new Set(rows.map(([id]) => number(id)))
    for (const ticket of tickets) if (!there.has(ticket)) this.#all.get(ticket)?.onGone()
  }
}
