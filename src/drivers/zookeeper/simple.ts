/**
 * The textbook lock: one ephemeral node with the lock's own name. The client that creates it holds the lock. All waiters watch
 * it; when it goes, all are notified and all retry at once.
 *
 * Kept for comparison, and for programs that lock this way. With n waiters, each release costs n events and n failed creates;
 * there is no order. A claim that finds the node recognises its own by the attempt id in it, so it does not mistake the node of
 * a create whose answer was lost for another client's.
 */
import type { Claim, Wait } from '../../core/driver.js'
import { BackendError } from '../../core/errors.js'
import { ignore, isCode, isPassing, troubleOf } from './failure.js'
import { Hold } from './hold.js'
import { pathOf } from './keys.js'
import { readRecord, recordOf } from './record.js'
import type { Desk, Own, Standing } from './runtime.js'
import { codes, create, flags, getData } from './session/protocol.js'
import { tokenOf } from './token.js'

export function standSimply(desk: Desk, claim: Claim, wait: Wait): Promise<Hold | undefined> {
  const { session, clock, acl, by, standings } = desk
  const lock = pathOf(desk.settings.chroot, claim.name)
  const once = wait.remaining() === 0
  let woken: () => void = () => undefined
  /** The session of the last create sent. */
  let asked: bigint | undefined
  const standing: Standing = {
    wake: () => woken(),
    troubled: (error) => wait.report?.({ error: troubleOf(error) }),
  }

  async function leave(): Promise<undefined> {
    const own: Own = { lock, attempt: claim.attempt, path: undefined, session: asked ?? 0n }
    if (asked !== undefined) await desk.remove(own).catch(() => undefined)
  }

  /** Tries to create the node. @returns undefined when the node exists, or when a parent was missing */
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

  /** Resolves with a hold when the node is ours after all; else once it may be gone. */
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
      const { attempt, client: whose, note } = readRecord(answer.data)
      const { czxid, ctime, ephemeralOwner } = answer.stat
      if (ephemeralOwner === 0n) throw standsForLine(lock)
      if (attempt === claim.attempt && ephemeralOwner === session.id) {
        const own = { lock, attempt, path: lock, session: session.id }
        return new Hold(desk, claim, { token: tokenOf(czxid), sent, own })
      }
      wait.report?.({
        holder: {
          attempt: attempt ?? '',
          mode: claim.mode,
          token: Number(czxid),
          heldFor: Math.max(0, (desk.now() ?? ctime) - ctime),
          expiresIn: Number.POSITIVE_INFINITY,
          ...(whose !== undefined && { client: whose }),
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
    for (let tries = 0; !wait.ended; tries++) {
      try {
        if (!session.connected) await connected()
        // The first try creates missing parents, so a single attempt has two.
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
      if (wait.ended && wait.signal.reason === error) return undefined
      throw troubleOf(error)
    })
    .finally(() => standings.delete(standing))
}

/** A container node outlives its last child by a minute or so, so this error does not mean that a client holds the lock. */
function standsForLine(lock: string): BackendError {
  return new BackendError(
    'zookeeper',
    `the node ${lock} is none of strategy simple but that of a line, or of another program; choose another chroot`,
  )
}
