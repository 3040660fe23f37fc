/** Votes: how they are requested, decoded and counted. */
import type { Claim, Holder } from '../../core/driver.js'
import type { Mode } from '../../core/mode.js'
import type { Reply } from '../redis/client.js'
import { count, type NodeReply } from './round.js'

/** The decoded reply of the script `vote`. */
export interface Vote {
  readonly letter: string
  readonly ballot: number
  readonly holder: Holder | undefined
  /** Queue position on that server; 0: not queued. */
  readonly position: number
}

/** The ballot that a majority has voted for, if any. */
export function winner(reply: readonly NodeReply<Vote>[], majority: number): number | undefined {
  for (const one of reply) {
    if (one === undefined || one instanceof Error || one.letter !== 'y') continue
    if (count(reply, ({ letter, ballot }) => letter === 'y' && ballot === one.ballot) >= majority)
      return one.ballot
  }
  return undefined
}

/**
 * Does another client certainly hold the lock, or is it kept for a waiter that was woken? If neither, contenders may merely have split
 * the votes between them. Readers hold it together: each server names one of them.
 */
export function isTaken(reply: readonly NodeReply<Vote>[], majority: number): boolean {
  const votes = new Map<string, number>()
  for (const one of reply) {
    if (one === undefined || one instanceof Error) continue
    if (one.letter === 'r') return true
    if (one.holder === undefined) continue
    const who = one.holder.mode.kind === 'exclusive' ? one.holder.attempt : 'readers'
    const n = (votes.get(who) ?? 0) + 1
    if (n >= majority) return true
    votes.set(who, n)
  }
  return false
}

/** The holder that the most servers name: a single one may have kept the vote of an attempt that failed. */
export function mostNamed(refusals: readonly Pick<Vote, 'holder'>[]): Holder | undefined {
  const holders = refusals.flatMap(({ holder }) => holder ?? [])
  const names = (of: Holder | undefined) => holders.filter(({ attempt }) => attempt === of?.attempt).length
  return holders.reduce<Holder | undefined>((best, one) => (names(one) > names(best) ? one : best), undefined)
}

export interface VoteRequest {
  readonly claim: Claim
  /** For how long, as the script takes it. Default: the claim's ttl. */
  readonly term?: string
  readonly round: number
  readonly ballot: number
  /** The attempt holds a majority and wants this vote, too. */
  readonly rejoin: boolean
  readonly by: string
  /** The channel for wake-ups, or `unreachableChannel`; undefined: the attempt does not wait. */
  readonly channel: string | undefined
  /** Milliseconds without a request after which the waiter counts as gone. */
  readonly alive: number
  readonly retention: number
}

/** The channel of a waiter that no message would reach at present. */
export const unreachableChannel = '-?'

/** The arguments of `vote`, after the boot id. */
export function voteArgs(request: VoteRequest): string[] {
  const { claim, term, channel } = request
  return [
    claim.attempt,
    String(request.round),
    claim.mode.kind === 'exclusive' ? 'x' : 's',
    term ?? micros(claim.ttl),
    String(request.ballot),
    request.rejoin ? '1' : '0',
    String(request.retention),
    request.by.replace(/\s/g, '_'),
    channel ?? '-',
    micros(request.alive),
    claim.note ?? '',
  ]
}

const micros = (ms: number) => String(Math.round(ms * 1000))

/** Seven parts from `at`: attempt, kind, ballot, µs held, µs left, by, note. */
export function parseHolder(reply: readonly Reply[], at: number): Holder {
  const part = (i: number) => String(reply[at + i] ?? '')
  const mode: Mode = { kind: part(1) === 'x' ? 'exclusive' : 'shared' }
  const note = part(6)
  return {
    attempt: part(0),
    mode,
    token: Number(part(2)),
    heldFor: Number(part(3)) / 1000,
    expiresIn: Number(part(4)) / 1000,
    client: part(5),
    ...(note === '' ? {} : { note }),
  }
}
