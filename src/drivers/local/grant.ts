/** A grant of `local()`: the client's view of a hold at the broker. */
import { deadline } from '../../core/clock.js'
import type { Claim, Grant, ReleaseResult } from '../../core/driver.js'
import { BackendError } from '../../core/errors.js'
import { LossNotice } from '../../core/loss-notice.js'
import { nextOrder } from '../kit/renewal-order.js'
import type { Answer } from './protocol.js'
import type { Session } from './session.js'

export type Granted = Extract<Answer, readonly ['granted', ...unknown[]]>

/** @param sent the clock reading from before the call was sent, from which the broker counts `age` */
export function createGrant(session: Session, claim: Claim, answer: Granted, sent: number): Grant {
  const { name, attempt, mode, ttl } = claim
  const [, token, upTo, age] = answer
  let contended = answer[4]
  let last = token
  let limit = upTo
  // Both processes read one monotonic clock, so the age that the broker measured needs no allowance for drift.
  let validUntil = deadline(sent + age, ttl)
  let released: Promise<ReleaseResult> | undefined
  let triedBefore = false
  const notice = new LossNotice()

  session.held.set(attempt, {
    lost() {
      session.held.delete(attempt)
      validUntil = Number.NEGATIVE_INFINITY
      notice.abort(
        new BackendError(
          'local',
          'the broker has ended this hold: its time was up, or an operator released it',
        ),
      )
    },
    contended(yes) {
      contended = yes
      if (yes) grant.onContended?.()
    },
  })

  async function renew(ttl: number, signal: AbortSignal): Promise<number | undefined> {
    const { answer, call } = await session.call(['renew', name, attempt, ttl, nextOrder()], signal)
    if (!doneOrThrow(answer)) {
      session.held.delete(attempt)
      return undefined
    }
    validUntil = deadline(call.sent, ttl)
    return validUntil
  }

  async function releaseGrant(): Promise<ReleaseResult> {
    const repeated = triedBefore
    triedBefore = true
    const { answer, call } = await session.call(['release', name, attempt, last])
    const was = doneOrThrow(answer) as ReleaseResult
    session.held.delete(attempt)
    // If a repeated release is answered with 'already-released', only the first answer was lost.
    return was === 'already-released' && (repeated || call.times > 1) ? 'released' : was
  }

  function release(): Promise<ReleaseResult> {
    released ??= releaseGrant().catch((error: unknown) => {
      released = undefined
      throw error
    })
    return released
  }

  const grant: Grant = {
    token,
    get validUntil() {
      return validUntil
    },
    lost: notice,
    renew,
    release,
  }
  if (mode.kind !== 'exclusive') return grant
  return Object.assign(grant, {
    nextReservedToken() {
      if (last >= limit) return undefined
      last += 1
      return last
    },
    contended: () => contended,
    async downgrade() {
      limit = last
      doneOrThrow((await session.call(['downgrade', name, attempt, last])).answer)
    },
  })
}

/** @throws BackendError when the broker reports a failure */
export function doneOrThrow(answer: Answer): unknown {
  if (answer[0] === 'done') return answer[1]
  throw new BackendError('local', answer[0] === 'failed' ? answer[1] : `unexpected answer ${answer[0]}`)
}
