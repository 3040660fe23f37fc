/** Several claims in one call to the broker, which grants all in one step and one journal write, or none. */
import type { Claim, Grant, Wait } from '../../core/driver.js'
import { BackendError, permitLimitError } from '../../core/errors.js'
import { answerTimeout } from './call.js'
import { createGrant } from './grant.js'
import { type Answer, encodeMode, type Item } from './protocol.js'
import type { Session } from './session.js'

export function acquireMany(
  session: Session,
  claims: readonly Claim[],
  wait: Wait,
): Promise<readonly Grant[] | undefined> {
  if (wait.ended) return Promise.resolve(undefined)
  const items = claims.map(
    ({ name, attempt, mode, ttl, note = '' }): Item => [name, attempt, encodeMode(mode), ttl, note],
  )
  const abandon = () => Promise.all(claims.map(({ name, attempt }) => session.abandon(name, attempt)))
  const { signal } = wait
  return new Promise((resolve, reject) => {
    const end = () => {
      drop()
      if (call.times === 0) resolve(undefined)
      else void abandon().then(() => resolve(undefined))
    }
    const done = () => signal.removeEventListener('abort', end)
    const { call, drop } = session.start({
      verb: ['together', items],
      timeout: answerTimeout,
      answered(answer) {
        done()
        try {
          resolve(toGrants(session, claims, answer, call.sent))
        } catch (error) {
          reject(error)
        }
      },
      failed(error) {
        done()
        reject(error)
        if (call.times > 0) void abandon()
      },
    })
    signal.addEventListener('abort', end, { once: true })
  })
}

/** @throws RangeError, BackendError */
function toGrants(
  session: Session,
  claims: readonly Claim[],
  answer: Answer,
  sent: number,
): Grant[] | undefined {
  if (answer[0] === 'all') {
    const [, grants] = answer
    return claims.map((claim, i) => {
      const [token, upTo, age, contended] = grants[i] as (typeof grants)[number]
      return createGrant(session, claim, ['granted', token, upTo, age, contended], sent)
    })
  }
  if (answer[0] !== 'none')
    throw new BackendError('local', answer[0] === 'failed' ? answer[1] : `unexpected answer ${answer[0]}`)
  const [, at, limit] = answer
  if (limit === null) return undefined
  const { name, mode } = claims[at] as Claim
  throw permitLimitError(name, limit, mode.kind === 'permits' ? mode.of : 0)
}
