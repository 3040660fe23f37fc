/** Encodes a claim for the script `acquire`, and decodes its reply. */
import type { Claim, Holder } from '../../core/driver.js'
import { livenessWindow } from '../kit/push-schedule.js'
import type { Reply } from './client.js'
import { toHolder } from './inspect.js'

/** How long the server refuses late requests of an abandoned attempt, in ms: longer than TCP keeps trying. */
export const tombstoneTtl = 180_000

export type AcquireReply =
  | {
      readonly is: 'granted'
      readonly token: number
      readonly contended: boolean
      readonly nextToken: string
    }
  /** The attempt has been released or cancelled before. */
  | { readonly is: 'over' }
  | { readonly is: 'limit'; readonly limit: number }
  | {
      readonly is: 'blocked'
      /** Queue position, 1 is next; 0: not queued. */
      readonly place: number
      /** Milliseconds until a retry is worthwhile. */
      readonly left: number
      /** Can the holder notify others when it releases, and would this process receive that? */
      readonly canPush: boolean
      /** End of the quarantine, because the server may have forgotten locks: ms since 1970 by its clock; 0: no quarantine. */
      readonly quarantinedFor: number
      /** The server is not the one that was met, or its marker has changed: it must be met again. */
      readonly fromOtherServer: boolean
      /** The score at which to continue at once: the script has not checked the whole queue. Empty: it has. */
      readonly nextToken: string
      readonly holder: Holder | undefined
    }

const reachableFor = micros(livenessWindow.reachable)
const pollingFor = micros(livenessWindow.polling)
const letters = { exclusive: 'x', shared: 's', permits: 'p' } as const

/** @param once do not enqueue; `reachable`: is there a channel to push to? `from`: the queue score at which to begin */
export function toArguments(claim: Claim, once: boolean, reachable: boolean, from = '0'): string[] {
  const { attempt, mode, ttl, note = '' } = claim
  const take = mode.kind === 'permits' ? `${mode.take} ${mode.of}` : '1 1'
  const alive = reachable ? reachableFor : pollingFor
  return [attempt, letters[mode.kind], micros(ttl), `${take} ${once ? 0 : 1} ${alive} ${from}`, note]
}

export function parseAcquireReply(reply: Reply): AcquireReply {
  if (typeof reply === 'string') {
    if (reply === 'o') return { is: 'over' }
    if (reply.startsWith('l ')) return { is: 'limit', limit: Number(reply.slice(2)) }
    // Not split: this is on the path of every acquire.
    const token = reply.indexOf(' ')
    const contended = reply.startsWith('1', token + 1)
    return {
      is: 'granted',
      token: Number(reply.slice(0, token)),
      contended,
      nextToken: reply.slice(token + 3),
    }
  }
  const [place, left, canPush, quarantinedFor, further, ...first] = reply as readonly Reply[]
  return {
    is: 'blocked',
    place: Number(place),
    left: Number(left) / 1000,
    canPush: Number(canPush) === 1,
    quarantinedFor: Number(quarantinedFor) > 1 ? Number(quarantinedFor) / 1000 : 0,
    fromOtherServer: Number(quarantinedFor) === 1,
    nextToken: String(further),
    holder: first.length > 0 ? toHolder(first) : undefined,
  }
}

export function micros(ms: number): string {
  return String(Math.round(ms * 1000))
}
