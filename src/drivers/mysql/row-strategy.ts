/** The strategy `row`: a row with an expiry holds a lock, and renewing the row proves the hold. No connection is kept. */
import { deadline } from '../../core/clock.js'
import type { Claim } from '../../core/driver.js'
import type { GetLockNotifier } from './get-lock-notifier.js'
import type { HoldProof } from './hold.js'
import type { Runtime } from './runtime.js'
import * as sql from './sql.js'
import type { Strategy } from './waiter.js'

export function rowStrategy(runtime: Runtime, notifier: GetLockNotifier | undefined): Strategy {
  return {
    async acquire(claim: Claim, guard: sql.Precondition): Promise<HoldProof | undefined> {
      const { tables, by } = runtime
      const latest = await runtime.serverDeadline()
      const { id, sent } = await runtime.execute(sql.acquire(tables, { claim, by, guard, latest }))
      if (id !== 0 && claim.mode.kind === 'exclusive') notifier?.hold(claim.name)
      // The token is the server's time in µs or a little ahead of it, which is close enough to the start of the hold.
      return id === 0 ? undefined : { token: id, validUntil: deadline(sent, claim.ttl), since: id }
    },
    // The row itself shows it: see `decide`.
    claimFromRow: () => undefined,
    async rollback(claim) {
      await runtime.execute(sql.release(runtime.tables, claim, 0), true)
      notifier?.notify(claim.name)
    },
    notified: (name, seconds) => notifier?.wait(name, seconds),
  }
}
