/**
 * Who holds a lock, as the servers report it together.
 *
 * An attempt holds it with the votes of a majority. A server that does not answer may have voted for anybody, so an
 * attempt counts as the holder as long as the servers that have voted for it, and those that do not answer, are a
 * majority; of attempts that exclude each other, only the one with the most votes. The vote that a single server kept
 * of an attempt that failed is therefore no holder where a majority of all servers answers without it.
 */
import type { Holder, LockStatus, Waiter } from '../../core/driver.js'
import { admits } from '../../core/mode.js'
import type { Reply } from '../redis/client.js'
import type { NodeReply } from './round.js'
import { parseHolder } from './votes.js'

/** @param replies that of the script `inspect`, of each server */
export function lockStatus(
  name: string,
  replies: readonly NodeReply<readonly Reply[]>[],
  majority: number,
): LockStatus {
  const answers = replies.flatMap((one) => (one === undefined || one instanceof Error ? [] : [one]))
  const needed = Math.max(1, majority - (replies.length - answers.length))
  const seen = new Map<string, Holder[]>()
  for (const reply of answers) {
    for (let i = 2; i < reply.length; i += 7) {
      const one = parseHolder(reply, i)
      seen.set(one.attempt, [...(seen.get(one.attempt) ?? []), one])
    }
  }
  const holders: Holder[] = []
  const votes = (rows: readonly Holder[]) => rows.filter(({ token }) => token > 0)
  const byVotes = [...seen.values()].sort((a, b) => votes(b).length - votes(a).length)
  const rest = byVotes.filter((rows) => {
    const given = votes(rows)
    const holder = given.length < needed ? undefined : agreed(given, majority)
    if (
      holder === undefined ||
      !admits(
        holders.map(({ mode }) => mode),
        holder.mode,
      )
    )
      return true
    holders.push(holder)
    return false
  })
  const waiters = rest
    // With the votes of some it still waits at the others.
    .filter((rows) => rows.length >= needed && rows.some(({ token }) => token === 0))
    .map(toWaiter)
    .sort((a, b) => b.waitedFor - a.waitedFor)
  return { name, holders, waiters, lastToken: Math.max(0, ...holders.map(({ token }) => token)) }
}

/** A hold lasts until a majority's votes no longer do, and has lasted since a majority's have been there. */
function agreed(votes: readonly Holder[], majority: number): Holder | undefined {
  const [first] = votes
  if (first === undefined) return undefined
  const descending = (of: (one: Holder) => number) => votes.map(of).sort((a, b) => b - a)
  const place = Math.min(majority, votes.length) - 1
  // A server that missed a downgrade still reports the former mode and token.
  const same = (a: Holder, b: Holder) => a.token === b.token && a.mode.kind === b.mode.kind
  const times = (one: Holder) => votes.filter((other) => same(one, other)).length
  return {
    ...votes.reduce((best, one) => (times(one) > times(best) ? one : best), first),
    heldFor: descending(({ heldFor }) => heldFor)[place] ?? first.heldFor,
    expiresIn: descending(({ expiresIn }) => expiresIn)[place] ?? first.expiresIn,
  }
}

function toWaiter(rows: readonly Holder[]): Waiter {
  const { heldFor, token, expiresIn, ...one } = rows.find((row) => row.token === 0) as Holder
  return { ...one, waitedFor: heldFor }
}
