/**
 * Batches renewals: up to a hundred requested in one tick are one statement, so a process sends one heartbeat, not one per lock.
 *
 * The statement skips rows that somebody else has locked at that moment. So it never waits, and one row locked for long does not cost the
 * others their leases. It reports only how many rows it renewed. If that is fewer than requested, each half is sent again separately; a
 * renewal that is left alone waits for its row and gets a definite answer.
 */
import type { Desk } from './runtime.js'
import * as sql from './sql.js'
import { keepAll, renewAll } from './sql-renewals.js'

export interface Renewed {
  readonly held: boolean
  /** Clock reading before the statement was sent. */
  readonly sent: number
}

export interface Renewer {
  /** @throws what `desk.ask` throws */
  renew(held: sql.Held): Promise<Renewed>
  /** Like `renew`, for a hold already proven for `left` ms, which another life of the server may not know. It shortens nothing. */
  keep(held: sql.Held, left: number): Promise<Renewed>
}

interface Item {
  readonly held: sql.Held
  /** Undefined: renewed for its ttl. */
  readonly left: number | undefined
  readonly resolve: (renewed: Renewed) => void
  readonly reject: (error: unknown) => void
}

const most = 100

export function createRenewer({ clock, tables, ask }: Desk): Renewer {
  let items: Item[] = []

  const alone = async ({ held, left, resolve }: Item) => {
    if (left === undefined) {
      const { id, sent } = await ask(sql.renew(tables, held), true)
      return resolve({ held: id !== 0, sent })
    }
    const { changed, sent } = await ask(keepAll(tables, [{ held, left }]).text, true)
    resolve({ held: changed === 1, sent })
  }

  const together = async (batch: readonly Item[]): Promise<void> => {
    const { text, rows } = isKept(batch)
      ? keepAll(tables, batch)
      : renewAll(
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
    const alike = new Map<number, Item[]>()
    for (const item of items) {
      const kind = item.left === undefined ? item.held.claim.ttl : 0
      alike.set(kind, [...(alike.get(kind) ?? []), item])
    }
    items = []
    for (const same of alike.values())
      for (let i = 0; i < same.length; i += most) send(same.slice(i, i + most))
  }

  const add = (held: sql.Held, left: number | undefined) =>
    new Promise<Renewed>((resolve, reject) => {
      items.push({ held, left, resolve, reject })
      if (items.length === 1) clock.soon(flush)
    })

  return { renew: (held) => add(held, undefined), keep: add }
}

const isKept = (batch: readonly Item[]): batch is readonly (Item & { readonly left: number })[] =>
  batch.every(({ left }) => left !== undefined)
