/**
 * The textbook's lock: one ephemeral node of the lock's own name. Whoever creates it holds; everybody else watches it, and
 * when it goes all of them are told and all try at once.
 *
 * Kept for comparison and for others who do it that way. What it costs with n waiters: n events and n failed creates for each
 * release, and no order at all. A claim that finds the node there knows its own by the attempt in it, so that a create whose
 * answer was lost is no stranger's.
 */
import type { Claim, Wait } from '../../core/driver.js'
import { BackendError } from '../../core/errors.js'
import type { Desk, Own, Standing } from './desk.js'
import { Hold } from './hold.js'
import { pathOf } from './keys.js'
import { readRecord, recordOf } from './record.js'
import { codes, create, flags, getData } from './session/protocol.js'
import { tokenOf } from './token.js'
import { ignore, isCode, isPassing, troubleOf } from './trouble.js'

export function standSimply(desk: Desk, claim: Claim, wait: Wait): Promise<Hold | undefined> {
  const { session, clock, acl, by, standings } = desk
  const lock = pathOf(desk.settings.chroot, claim.name)
  const once = wait.remaining() === 0
  let woken: () => void = () => undefined
  /** The session in which a create was sent whose answer has not come. */
  let asked: bigint | undefined
  const standing: Standing = {
    wake: () => woken(),
    troubled: (error) => wait.blocked?.({ trouble: troubleOf(error) }),
  }

  async function leave(): Promise<undefined> {
    const own: Own = { lock, attempt: claim.attempt, path: undefined, session: asked ?? 0n }
    if (asked !== undefined) await desk.remove(own).catch(() => undefined)
  }

  /** `undefined`: somebody else has it, or it has just gone. */
  async function take(): Promise<Hold | undefined> {
    desk.assertLasts(claim)
    const sent = clock.now()
    const id = session.id
    asked = id
    try {
      const { stat } = await session.call(create(lock, recordOf(claim, by), acl, flags.ephemeral))
      desk.told(stat)
      const own = { lock, attempt: claim.attempt, path: lock, session: id }
      return new Hold(desk, claim, { token: tokenOf(stat.czxid), sent, own })
    } catch (error) {
      if (isCode(error, codes.noNode)) await desk.makeLock(lock)
      else if (!isCode(error, codes.nodeExists)) throw error
      return undefined
    }
  }

  /** Resolves with a hold when the node is ours after all; else once it may have gone. */
  async function watch(): Promise<Hold | undefined> {
    const sent = clock.now()
    const { signal } = wait
    let wake: () => void = () => undefined
    const gone = new Promise<void>((resolve) => {
      wake = resolve
    })
    woken = wake
    signal.addEventListener('abort', wake)
    const letGo = session.keepAlive()
    try {
      const answer = await session.call(getData(lock, wake)).catch(ignore(codes.noNode))
      if (answer === undefined) return undefined
      const { attempt, by: whose, note } = readRecord(answer.data)
      const { czxid, ctime, ephemeralOwner } = answer.stat
      if (ephemeralOwner === 0n) throw standsForLine(lock)
      if (attempt === claim.attempt && ephemeralOwner === session.id) {
        const own = { lock, attempt, path: lock, session: session.id }
        return new Hold(desk, claim, { token: tokenOf(czxid), sent, own })
      }
      wait.blocked?.({
        holder: {
          attempt: attempt ?? '',
          mode: claim.mode,
          token: Number(czxid),
          heldFor: Math.max(0, (desk.now() ?? ctime) - ctime),
          expiresIn: Number.POSITIVE_INFINITY,
          ...(whose !== undefined && { by: whose }),
          ...(note !== undefined && { note }),
        },
      })
      if (!once && !signal.aborted) await gone
      return undefined
    } finally {
      letGo()
      signal.removeEventListener('abort', wake)
      session.drop({ kind: 'data', path: lock, fired: wake })
    }
  }

  async function connected(): Promise<void> {
    const letGo = session.keepAlive()
    await session
      .ready(wait.signal)
      .catch((error) => {
        throw wait.signal.aborted && session.trouble !== undefined ? session.trouble : error
      })
      .finally(letGo)
  }

  async function stand(): Promise<Hold | undefined> {
    for (let tries = 0; !wait.over; tries++) {
      try {
        if (!session.connected) await connected()
        // A node that was missing above is made by the first try, so a single attempt has two.
        const hold = (await take()) ?? (await take()) ?? (await watch())
        if (hold !== undefined) return hold
        if (once && tries > 0) break
      } catch (error) {
        if (!isPassing(error)) throw error
        standing.troubled(error as Error)
        await connected()
      }
    }
    return leave()
  }

  standings.add(standing)
  return stand()
    .catch((error) => {
      void leave()
      if (wait.over && wait.signal.reason === error) return undefined
      throw troubleOf(error)
    })
    .finally(() => standings.delete(standing))
}

/** A container outlives its last child by a minute or so: nobody needs to hold there. */
function standsForLine(lock: string): BackendError {
  return new BackendError(
    'zookeeper',
    `the node ${lock} is none of strategy simple but that of a line, or of another program; choose another chroot`,
  )
}
