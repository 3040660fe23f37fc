/**
 * What the replies of one round mean: decided or not, why the lock is not ours, and how long to wait before the next
 * round. Decisions only; `waiter.ts` asks the servers.
 */
import type { WaitStatus } from '../../core/driver.js'
import { BackendError } from '../../core/errors.js'
import { GarbledReply } from '../redis/reply-shapes.js'
import { withoutLogin } from '../redis/without-login.js'
import { broke, type Node, notIntroduced, notSent } from './node.js'
import { Refusal } from './refusal.js'
import { count, type NodeReply } from './round.js'
import { mostNamed, type Vote, winner } from './votes.js'

/** The servers, as far as an outcome depends on them. */
export interface Electorate {
  readonly nodes: readonly Node[]
  readonly majority: number
}

type Votes = readonly NodeReply<Vote>[]

/** Has an attempt won, or can none win any more? */
export function isDecided(votes: Votes, electorate: Electorate): boolean {
  const { nodes, majority } = electorate
  if (winner(votes, majority) !== undefined) return true
  const isOpen = (place: number) => votes[place] === undefined
  const open = nodes.filter((node, place) => isOpen(place) && !lacksVotes(node, electorate)).length
  if (count(votes, ({ letter }) => letter === 'y') + open >= majority) return false
  // Whether the lock is taken or too few servers answer is known only once a majority has answered, or no longer can.
  const answered = count(votes, () => true)
  return answered >= majority || answered + open < majority
}

/**
 * A silent server is asked, and its vote counts, but no round waits for it while a majority is not silent. Otherwise two contenders
 * that have split the votes of the others would not know the outcome for a whole time-out, both would start again at once, and so on
 * for ever.
 */
function lacksVotes({ silent }: Node, { nodes, majority }: Electorate): boolean {
  return silent && nodes.filter((node) => node.trusted && !node.silent).length >= majority
}

/** Would a majority have voted for a greater ballot? */
export function wouldVote(votes: Votes, majority: number): boolean {
  return count(votes, ({ letter }) => letter === 'y' || letter === 'h') >= majority
}

/** What blocks a claim that has no majority. */
export function blockedBy(votes: Votes, electorate: Electorate): WaitStatus {
  const missing = isDecided(votes, electorate) ? 'its answer could not change that' : noAnswer
  const refusals = votes.flatMap((one) =>
    one !== undefined && !(one instanceof Error) && (one.holder || one.position > 0) ? [one] : [],
  )
  const holder = mostNamed(refusals)
  const position = Math.max(0, ...refusals.map(({ position }) => position))
  const lacking = count(votes, () => true) < electorate.majority
  return {
    ...(holder === undefined ? {} : { holder }),
    ...(position === 0 ? {} : { position }),
    ...(lacking ? { error: noMajority(votes, electorate, missing) } : {}),
  }
}

/** The pause before the next round of a wait, in ms. @param random from 0 to 1 */
export function pauseAfter({ holder, error }: WaitStatus, retryDelay: number, random: number): number {
  const jitter = 0.5 + random
  // No attempt holds the lock: contenders have split the votes, and should not meet again at once.
  if (holder === undefined && error === undefined) return 10 * jitter
  const left = holder?.expiresIn ?? Number.POSITIVE_INFINITY
  return Math.max(5, Math.min(left + 5, retryDelay)) * jitter
}

const noAnswer = 'no answer in time'

/** @param missing why a server that may vote has not answered */
export function noMajority(
  reply: readonly NodeReply<unknown>[],
  { nodes, majority }: Electorate,
  missing: string = noAnswer,
): BackendError {
  const replies = nodes.map((node, place) => {
    const one = reply[place]
    const silent = node.trusted ? missing : node.untrustedReason
    if (one !== undefined && !(one instanceof Error)) return `${node.label}: answered`
    return `${node.label}: ${node.connection.outage?.message ?? one?.message ?? silent}`
  })
  const silent = nodes.filter(({ trusted, untrustedReason }, place) => {
    const one = reply[place]
    return (
      (one instanceof Error && !(one instanceof GarbledReply || one instanceof Refusal)) ||
      (one === undefined && (trusted || [notSent, notIntroduced, broke].includes(untrustedReason)))
    )
  })
  const barred = nodes.some(({ quarantined }) => quarantined)
  const gone = nodes.filter(
    ({ trusted, quarantined }, place) => !quarantined && (!trusted || reply[place] instanceof Error),
  )
  return new BackendError(
    'redlock',
    `fewer than ${majority} of ${nodes.length} servers can vote (${replies.join('; ')})`,
    {
      cause:
        nodes.find(({ connection }) => connection.outage !== undefined)?.connection.outage ??
        withoutLogin(reply.find((one) => one instanceof Error)),
      unanswered: silent.length > nodes.length - majority,
      quarantined: barred && gone.length <= nodes.length - majority,
    },
  )
}
