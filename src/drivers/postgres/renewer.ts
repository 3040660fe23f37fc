/** Renewals asked for in one tick are one statement, whatever their number up to 200: one heartbeat for a process, not one for each lock. */
import type { Clock } from '../../core/clock.js'
import type { Lane } from './lane.js'
import type { Calls } from './sql.js'

export interface Renewed {
  readonly held: boolean
  /** Clock reading before it left. */
  readonly sent: number
}

export interface Renewer {
  renew(name: string, attempt: string, ttl: number): Promise<Renewed>
}

interface Item {
  readonly name: string
  readonly attempt: string
  readonly ttl: number
  readonly resolve: (renewed: Renewed) => void
  readonly reject: (error: unknown) => void
}

const most = 200

export function createRenewer(lane: Lane, calls: Calls, clock: Clock): Renewer {
  let items: Item[] = []
  const send = async (batch: readonly Item[]) => {
    try {
      const rows = batch.map(({ name, attempt, ttl }) => [name, attempt, Math.round(ttl * 1000)])
      const { answer, sent } = await lane.ask(calls.renew, [JSON.stringify(rows)])
      for (const [i, item] of batch.entries()) item.resolve({ held: (answer as number[])[i] === 1, sent })
    } catch (error) {
      for (const item of batch) item.reject(error)
    }
  }
  const flush = () => {
    // In one order everywhere: two batches that lock the same rows in different orders would wait for each other.
    const all = items.sort((a, b) => Buffer.compare(Buffer.from(a.name), Buffer.from(b.name)))
    items = []
    for (let i = 0; i < all.length; i += most) void send(all.slice(i, i + most))
  }
  return {
    renew(name, attempt, ttl) {
      return new Promise((resolve, reject) => {
        items.push({ name, attempt, ttl, resolve, reject })
        if (items.length === 1) clock.soon(flush)
      })
    },
  }
}
