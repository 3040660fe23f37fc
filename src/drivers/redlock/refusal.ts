/** A server that answers, and refuses until somebody fixes the cause: a missing right, a full memory. It is not silent. */
import { lastingRefusal, refusalText } from '../redis/failure.js'
import type { NodeReply } from './round.js'

export class Refusal extends Error {
  readonly code: string
  constructor([code, what]: readonly [code: string, what: string], cause: unknown) {
    // Its channels have other names than those of `redis`.
    super(refusalText(code, what.replace('<prefix>c:', '<prefix>redlock:')), { cause })
    this.code = code
  }
}

/** The client's error, or the refusal that it is. */
export function toRefusal(error: unknown): unknown {
  const found = error instanceof Error ? lastingRefusal(error.message) : undefined
  return found === undefined ? error : new Refusal(found, error)
}

/** Why a server does not vote: its refusal, or the text of another error. */
export function toReason(error: unknown): string | Refusal {
  const why = toRefusal(error)
  if (why instanceof Refusal) return why
  return why instanceof Error ? why.message : String(why)
}

/**
 * Can no majority vote until somebody acts, so that waiting is useless?
 * @param stale refusals from before the wait: what caused them may be fixed by now
 */
export function isHopeless(
  reply: readonly NodeReply<unknown>[],
  majority: number,
  stale: readonly unknown[],
): boolean {
  const mayVote = reply.filter((one) => !(one instanceof Refusal) || stale.includes(one))
  return mayVote.length < majority
}
