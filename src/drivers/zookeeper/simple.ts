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
import { ignore, isCode, isTransient, toFailure } from './failure.js'
import { Hold } from './hold.js'
import { lockPath } from './keys.js'
import { encodeRecord, parseRecord } from './record.js'
import type { OwnNode, PendingClaim, Runtime } from './runtime.js'
import { codes, create, flags, getData } from './session/protocol.js'
import { toToken } from './token.js'

export function acquireSimple(runtime: Runtime, claim: Claim, wait: Wait): Promise<Hold | undefined> {
  const { session, clock, acl, client, pendingClaims } = runtime
  const lock = lockPath(runtime.settings.chroot, claim.name)
  const once = wait.remaining() === 0
  let woken: () => void = () => undefined
  /** The session of the last create sent. */
  let asked: bigint | undefined
  const pending: PendingClaim = {
    wake: () => woken(),
    onFailure: (error) => wait.report?.({ error: toFailure(error) }),
  }

  async function leave(): Promise<undefined> {
    const own: OwnNode = { lock, attempt: claim.attempt, path: undefined, session: asked ?? 0n }
    if (asked !== undefined) await runtime.remove(own).catch(() => undefined)
  }

  /** Tries to create the node. @returns undefined when the node exists, or when a parent was missing */
  async function take(): Promise<Hold | undefined> {
    runtime.assertDelayFits(claim)
    const sent = clock.now()
    const id = session.id
    asked = id
    try {
      const { stat } = await session.call(create(lock, encodeRecord(claim, client), acl, flags.ephemeral))
      runtime.noteServerTime(stat)
      const own = { lock, attempt: claim.attempt, path: lock, session: id }
      return new Hold(runtime, claim, { token: toToken(stat.czxid), sent, own })
    } catch (error) {
      if (isCode(error, codes.noNode)) await runtime.makeLock(lock)
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
      const { attempt, client: whose, note } = parseRecord(answer.data)
      const { czxid, ctime, ephemeralOwner } = answer.stat
      if (ephemeralOwner === 0n) throw queueNodeError(lock)
      if (attempt === claim.attempt && ephemeralOwner === session.id) {
        const own = { lock, attempt, path: lock, session: session.id }
        return new Hold(runtime, claim, { token: toToken(czxid), sent, own })
      }
      wait.report?.({
        holder: {
          attempt: attempt ?? '',
          mode: claim.mode,
          token: Number(czxid),
          heldFor: Math.max(0, (runtime.now() ?? ctime) - ctime),
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
        throw wait.signal.aborted && session.failure !== undefined ? session.failure : error
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
        if (!isTransient(error)) throw error
        pending.onFailure(error as Error)
        await connected()
      }
    }
    return leave()
  }

  pendingClaims.add(pending)
  return stand()
    .catch((error) => {
      void leave()
      if (wait.ended && wait.signal.reason === error) return undefined
      throw toFailure(error)
    })
    .finally(() => pendingClaims.delete(pending))
}

/** A container node outlives its last child by a minute or so, so this error does not mean that a client holds the lock. */
function queueNodeError(lock: string): BackendError {
  return new BackendError(
    'zookeeper',
    `the node ${lock} does not belong to the strategy 'simple': it is a queue, or belongs to another program; choose another chroot`,
  )
}
