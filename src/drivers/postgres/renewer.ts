/**
 * Batches renewals: up to 300 requested in one tick are one statement, so a process sends one heartbeat, not one per lock.
 * A renewal whose row somebody else has locked is retried alone, so that it holds up no others: the server waits a tenth of a second for
 * such a row, and is asked three times.
 */
import type { Clock } from '../../core/clock.js'
import type { Connections } from './connections.js'
import { findCode } from './failure.js'
import type { Calls } from './sql.js'

export interface RenewResult {
  readonly held: boolean
  /** Clock reading before the statement was sent. */
  readonly sent: number
}

export interface Renewer {
  /**
   * @param ttl in ms; 0: only asks whether the lock is held; below 0: has it last at least that long (`-ttl`) and shortens nothing
   * @param channel where the holder is notified from now on; null: as before
   * @param order with a ttl above 0: which of the renewals that may shorten the hold this is
   */
  renew(
    name: string,
    attempt: string,
    ttl: number,
    channel?: string | null,
    order?: number,
  ): Promise<RenewResult>
}

interface PendingRenewal {
  readonly name: string
  readonly attempt: string
  readonly ttl: number
  readonly channel: string | null
  readonly order: number | undefined
  readonly resolve: (renewed: RenewResult) => void
  readonly reject: (error: unknown) => void
}

const maxBatch = 300
const triesAlone = 3

export function createRenewer(connections: Connections, calls: Calls, clock: Clock): Renewer {
  let items: PendingRenewal[] = []
  const send = async (batch: readonly PendingRenewal[], tries = 1): Promise<void> => {
    try {
      const rows = batch.map(({ name, attempt, ttl, channel, order }) => {
        const row = [name, attempt, Math.round(ttl * 1000)]
        if (order !== undefined) return [...row, channel, order]
        return channel === null ? row : [...row, channel]
      })
      const { answer, sent } = await connections.execute(calls.renew, [JSON.stringify(rows)])
      for (const [i, item] of batch.entries()) {
        const held = (answer as number[])[i]
        if (held === 2) void send([item])
        else item.resolve({ held: held === 1, sent })
      }
    } catch (error) {
      if (batch.length === 1 && findCode(error) === '55P03' && tries < triesAlone)
        return send(batch, tries + 1)
      for (const item of batch) item.reject(error)
    }
  }
  const flush = () => {
    // The same order everywhere: two batches that lock the same rows in different orders would wait for each other.
    const all = items.sort((a, b) => Buffer.compare(Buffer.from(a.name), Buffer.from(b.name)))
    items = []
    for (let i = 0; i < all.length; i += maxBatch) void send(all.slice(i, i + maxBatch))
  }
  return {
    renew(name, attempt, ttl, channel = null, order = undefined) {
      return new Promise((resolve, reject) => {
        items.push({ name, attempt, ttl, channel, order, resolve, reject })
        if (items.length === 1) clock.soon(flush)
      })
    },
  }
}
