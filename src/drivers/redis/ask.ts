/** How a claim is put to the script `acquire`, and what its answer means. */
import type { Claim, Holder } from '../../core/driver.js'
import { aliveFor } from '../kit/push.js'
import type { Reply } from './client.js'
import { holderOf } from './inspect.js'
import type { Asker, Flight } from './link.js'

export type Acquired =
  | { readonly is: 'granted'; readonly token: number; readonly contended: boolean }
  /** The attempt has been released or cancelled before. */
  | { readonly is: 'over' }
  | { readonly is: 'limit'; readonly limit: number }
  | {
      readonly is: 'blocked'
      /** Place in line, 1 is next; 0: it does not stand in line. */
      readonly place: number
      /** Milliseconds until it is worth asking again. */
      readonly left: number
      /** Can the holder tell others when it releases, and would this process hear it? */
      readonly canPush: boolean
      /** Nothing is granted now, because the server may have forgotten locks. */
      readonly barred: boolean
      readonly holder: Holder | undefined
    }

const letters = { exclusive: 'x', shared: 's', permits: 'p' } as const

/** @param n number of this request; `once`: do not stand in line; `reachable`: is there a channel to push to? */
export function argsOf(
  claim: Claim,
  n: number,
  once: boolean,
  reachable: boolean,
  claimFor: number,
): string[] {
  const { attempt, mode, ttl, note = '' } = claim
  const take = mode.kind === 'permits' ? `${mode.take} ${mode.of}` : '1 1'
  const alive = micros(reachable ? aliveFor.reachable : aliveFor.polling)
  const rest = `${take} ${once ? 0 : 1} ${n} ${alive} ${micros(Math.min(claimFor, ttl))}`
  return [attempt, letters[mode.kind], micros(ttl), rest, note]
}

export function acquiredOf(reply: Reply): Acquired {
  if (typeof reply === 'string') {
    const [first, second] = reply.split(' ')
    if (first === 'o') return { is: 'over' }
    if (first === 'l') return { is: 'limit', limit: Number(second) }
    return { is: 'granted', token: Number(first), contended: second === '1' }
  }
  const [place, left, canPush, barred, ...first] = reply as readonly Reply[]
  return {
    is: 'blocked',
    place: Number(place),
    left: Number(left) / 1000,
    canPush: canPush === 1,
    barred: barred === 1,
    holder: first.length > 0 ? holderOf(first) : undefined,
  }
}

export function micros(ms: number): string {
  return String(Math.round(ms * 1000))
}

/** What a waiter does with its requests. */
export interface Asking {
  leaving(ask: Ask, flight: Flight): void
  answered(reply: Reply, flight: Flight, ask: Ask): void
  failed(error: unknown): void
}

/** One request: when it left, over which connections, and whether it said where to push to. */
export class Ask implements Asker {
  readonly waiter: Asking
  readonly n: number
  /** Undefined until it leaves. */
  sent: number | undefined
  link = 0
  ear = 0
  reachable = false

  constructor(waiter: Asking, n: number) {
    this.waiter = waiter
    this.n = n
  }

  leaving(flight: Flight): void {
    this.waiter.leaving(this, flight)
  }

  answered(reply: Reply, flight: Flight): void {
    this.waiter.answered(reply, flight, this)
  }

  failed(error: unknown): void {
    this.waiter.failed(error)
  }
}
