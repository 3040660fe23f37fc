/**
 * Renewals asked for in one tick are one statement, whatever their number up to a hundred: one heartbeat for a process, not one for each
 * lock.
 *
 * The statement passes over rows that somebody else keeps locked just then, so it never waits, and one row that is kept for long does
 * not cost the others their leases. It tells only how many rows it has renewed. If that is fewer than were asked for, each half is asked
 * again by itself; one that is left alone waits for its row, and is answered for certain.
 */
import type { Desk } from './desk.js'
import * as sql from './sql.js'
import { renewAll } from './sql-renewals.js'

export interface Renewed {
  readonly held: boolean
  /** Clock reading before the statement left. */
  readonly sent: number
}

export interface Renewer {
  /** @throws what `desk.ask` throws */
  renew(held: sql.Held): Promise<Renewed>
}

interface Item {
  readonly held: sql.Held
  readonly resolve: (renewed: Renewed) => void
  readonly reject: (error: unknown) => void
}

const most = 100

export function createRenewer({ clock, tables, ask }: Desk): Renewer {
  let items: Item[] = []

  const alone = async ({ held, resolve }: Item) => {
    const { id, sent } = await ask(sql.renew(tables, held), true)
    resolve({ held: id !== 0, sent })
  }

  const together = async (batch: readonly Item[]): Promise<void> => {
    const { text, rows } = renewAll(
      tables,
      batch.map(({ held }) => held),
    )
    const { changed, sent } = await ask(text, true)
    if (changed === rows) return batch.forEach(({ resolve }) => void resolve({ held: true, sent }))
    const half = Math.ceil(batch.length / 2)
    send(batch.slice(0, half))
    send(batch.slice(half))
  }

  const send = (batch: readonly Item[]): void => {
    const [first, second] = batch
    if (first === undefined) return
    const work = second === undefined ? alone(first) : together(batch)
    work.catch((error: unknown) => {
      for (const { reject } of batch) reject(error)
    })
  }

  const flush = () => {
    const byTtl = new Map<number, Item[]>()
    for (const item of items) {
      const { ttl } = item.held.claim
      byTtl.set(ttl, [...(byTtl.get(ttl) ?? []), item])
    }
    items = []
    for (const same of byTtl.values())
      for (let i = 0; i < same.length; i += most) send(same.slice(i, i + most))
  }

  return {
    renew: (held) =>
      new Promise((resolve, reject) => {
        items.push({ held, resolve, reject })
        if (items.length === 1) clock.soon(flush)
      }),
  }
}
