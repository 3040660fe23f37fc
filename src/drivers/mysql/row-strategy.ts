/** The strategy `row`: a row with an expiry holds a lock, and renewing the row proves the hold. No connection is kept. */
import { deadline } from '../../core/clock.js'
import type { Claim } from '../../core/driver.js'
import type { Bell } from './get-lock-notifier.js'
import type { Proven } from './hold.js'
import type { Desk } from './runtime.js'
import * as sql from './sql.js'
import type { Taker } from './waiter.js'

export function rowTaker(desk: Desk, bell: Bell | undefined): Taker {
  return {
    async take(claim: Claim, guard: sql.Guard): Promise<Proven | undefined> {
      const { tables, by } = desk
      const latest = await desk.latest()
      const { id, sent } = await desk.ask(sql.take(tables, { claim, by, guard, latest }))
      if (id !== 0 && claim.mode.kind === 'exclusive') bell?.keep(claim.name)
      // The token is the server's time in µs or a little ahead of it, which is close enough to the start of the hold.
      return id === 0 ? undefined : { token: id, validUntil: deadline(sent, claim.ttl), since: id }
    },
    // The row itself shows it: see `decide`.
    recover: () => undefined,
    async undo(claim) {
      await desk.ask(sql.release(desk.tables, claim, 0), true)
      bell?.ring(claim.name)
    },
    listen: (name, seconds) => bell?.listen(name, seconds),
  }
}
