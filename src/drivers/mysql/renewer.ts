/**
 * Batches renewals: up to 190 with one ttl, requested in one tick, are one statement, so a process sends a heartbeat for each ttl it
 * uses, not one per lock.
 *
 * The statement skips rows that somebody else has locked at that moment. So it never waits, and one row locked for long does not cost the
 * others their leases. It reports only how many rows it renewed. If that is fewer than requested, each half is sent again separately; a
 * renewal that is left alone waits for its row and gets a definite answer.
 *
 * None of these shortens a hold, so that a copy that arrives late does not. A renewal to a shorter ttl is a statement of its own, after one that
 * reads the end it may change.
 */
import { number } from './client.js'
import { findErrno } from './failure.js'
import type { Runtime } from './runtime.js'
import * as sql from './sql.js'
import { renewAll, verifyAll } from './sql-renewals.js'

export interface RenewResult {
  readonly held: boolean
  /** Clock reading before the statement was sent. */
  readonly sent: number
}

export interface Renewer {
  /** For the ttl of its claim at least. @throws what `runtime.execute` throws */
  renew(held: sql.HoldRow): Promise<RenewResult>
  /** For exactly the ttl of its claim. @throws as `renew`; Error when its row does not stand still */
  shorten(held: sql.HoldRow): Promise<RenewResult>
  /** Like `renew`, for a hold already proven for `left` ms, which another life of the server may not know. It shortens nothing. */
  verify(held: sql.HoldRow, left: number): Promise<RenewResult>
}

interface PendingRenewal {
  readonly held: sql.HoldRow
  /** Undefined: renewed for its ttl. */
  readonly left: number | undefined
  readonly resolve: (renewed: RenewResult) => void
  readonly reject: (error: unknown) => void
}

// From 200 values on, the server no longer looks into the index for each, but relies on statistics: it might read, and lock, the whole table.
const maxBatch = 190
const triesToShorten = 5

export function createRenewer({ clock, tables, execute }: Runtime): Renewer {
  let items: PendingRenewal[] = []

  const alone = async ({ held, left, resolve }: PendingRenewal) => {
    if (left === undefined) {
      const { id, sent } = await execute(sql.renew(tables, held), true)
      return resolve({ held: id !== 0, sent })
    }
    const { changed, sent } = await execute(verifyAll(tables, [{ held, left }]).text, true)
    resolve({ held: changed === 1, sent })
  }

  const together = async (batch: readonly PendingRenewal[]): Promise<void> => {
    const { text, rows } = isHeld(batch)
      ? verifyAll(tables, batch)
      : renewAll(
          tables,
          batch.map(({ held }) => held),
        )
    // Where `sql_safe_updates` is on, the server takes no statement for many rows, but those for one.
    const { changed, sent } = await execute(text, true).catch((error: unknown) => {
      if (findErrno(error) !== 1175) throw error
      return { changed: undefined, sent: 0 }
    })
    if (changed === rows) return batch.forEach(({ resolve }) => void resolve({ held: true, sent }))
    const half = Math.ceil(batch.length / 2)
    send(batch.slice(0, half))
    send(batch.slice(half))
  }

  const send = (batch: readonly PendingRenewal[]): void => {
    const [first, second] = batch
    if (first === undefined) return
    const work = second === undefined ? alone(first) : together(batch)
    work.catch((error: unknown) => {
      for (const { reject } of batch) reject(error)
    })
  }

  const flush = () => {
    const alike = new Map<number, PendingRenewal[]>()
    for (const item of items) {
      const kind = item.left === undefined ? item.held.claim.ttl : 0
      alike.set(kind, [...(alike.get(kind) ?? []), item])
    }
    items = []
    for (const same of alike.values())
      for (let i = 0; i < same.length; i += maxBatch) send(same.slice(i, i + maxBatch))
  }

  const add = (held: sql.HoldRow, left: number | undefined) =>
    new Promise<RenewResult>((resolve, reject) => {
      items.push({ held, left, resolve, reject })
      if (items.length === 1) clock.soon(flush)
    })

  const shorten = async (held: sql.HoldRow): Promise<RenewResult> => {
    for (let tries = 0; tries < triesToShorten; tries++) {
      const { rows, sent } = await execute(sql.readEnd(tables, held), true)
      const [row] = rows
      if (row === undefined) return { held: false, sent }
      const changed = await execute(sql.shorten(tables, held, number(row[0])), true)
      if (changed.id !== 0) return { held: true, sent: changed.sent }
    }
    throw new Error('the end of the hold has changed again and again')
  }

  return { renew: (held) => add(held, undefined), shorten, verify: add }
}

const isHeld = (
  batch: readonly PendingRenewal[],
): batch is readonly (PendingRenewal & { readonly left: number })[] =>
  batch.every(({ left }) => left !== undefined)
