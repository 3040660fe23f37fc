/** How the strategy `session` acquires a lock: first the GET_LOCK, which nobody else can then have, then the row, for token and order. */
import { deadline } from '../../../core/clock.js'
import type { Claim } from '../../../core/driver.js'
import { number } from '../client.js'
import type { Row } from '../decision.js'
import type { HoldProof } from '../hold.js'
import type { Runtime } from '../runtime.js'
import * as sql from '../sql.js'
import type { Strategy } from '../waiter.js'
import { endedDuring, type Session } from './session.js'
import type { Sessions } from './sessions.js'

export interface SessionStrategy extends Strategy {
  /** The session in which this attempt holds. */
  findSession(attempt: string): Session | undefined
  forget(attempt: string): void
  /** Releases the GET_LOCK of a name on the connection of this process, unless one of its claims owns it. */
  giveBack(name: string): Promise<void>
}

export function sessionStrategy(runtime: Runtime, sessions: Sessions): SessionStrategy {
  const { tables } = runtime
  const holding = new Map<string, Session>()

  /** Runs after the statement it undoes, on the same connection, whether or not that was answered. */
  const unlock = (session: Session, { name, attempt }: Claim) => {
    if (session.owners.get(name) !== attempt) return
    holding.delete(attempt)
    session.unlock(name, sql.unlock(tables, name)).catch(() => undefined)
  }

  const begin = async (
    session: Session,
    claim: Claim,
    guard: sql.Precondition,
  ): Promise<HoldProof | undefined> => {
    const latest = await runtime.serverDeadline()
    await session.atLeast(claim.ttl)
    const { rows } = await session.execute(sql.getLock(tables, claim.name))
    if (number(rows[0]?.[0]) !== 1) return undefined
    const { id, sent } = await session.execute(
      sql.acquireSession(tables, { claim, by: runtime.by, guard, latest }),
    )
    if (id === 0) return undefined
    return { token: id, validUntil: deadline(sent, claim.ttl), since: id }
  }

  const claimIn = async (
    session: Session,
    claim: Claim,
    guard: sql.Precondition,
  ): Promise<HoldProof | undefined> => {
    // Another attempt in this process has it, or had it just now: the server would let both in.
    if (session.isTaken(claim.name)) return undefined
    session.owners.set(claim.name, claim.attempt)
    let proven: HoldProof | undefined
    try {
      proven = await begin(session, claim, guard)
      if (proven !== undefined) holding.set(claim.attempt, session)
      return proven
    } finally {
      if (proven === undefined) unlock(session, claim)
    }
  }

  return {
    async acquire(claim, guard) {
      const session = await sessions.current()
      try {
        return await claimIn(session, claim, guard)
      } catch (error) {
        if (await runtime.createTablesAfter(error)) return undefined
        if (runtime.closed || !endedDuring(session, error)) throw error
      }
      return claimIn(await sessions.current(), claim, guard)
    },

    /** The same claim was sent twice: the other request has the lock. */
    claimFromRow(row: Row, claim: Claim): HoldProof | undefined {
      const session = holding.get(claim.attempt)
      if (session === undefined || session.isOver || row.kind !== 'g' || row.owner !== claim.attempt)
        return undefined
      return { token: row.token, validUntil: deadline(session.provenAt, claim.ttl), since: row.since }
    },

    async rollback(claim) {
      await runtime.execute(sql.release(tables, claim, 0), true)
      const session = holding.get(claim.attempt)
      if (session !== undefined) unlock(session, claim)
    },

    findSession: (attempt) => holding.get(attempt),
    forget: (attempt) => void holding.delete(attempt),
    async giveBack(name) {
      const session = await sessions.current()
      if (!session.isTaken(name)) await session.unlock(name, sql.unlock(tables, name))
    },
  }
}
