/** What an operator's `forceRelease` ended. */
import type { Event } from './event.js'
import { groupBy } from './group-by.js'

/** The fields of an acquisition that are read and written here. */
interface Draft {
  readonly name: string
  readonly granted: number | undefined
  readonly proven: number | undefined
  readonly released: number | undefined
  readonly lost: number | undefined
  forced: number | undefined
}

/** From the call of `forceRelease` until the store can no longer execute it. */
export interface Force {
  readonly client: string
  readonly name: string | undefined
  readonly from: number
  to: number
}

/** How long an unanswered call may still be executed, in ns: clients resend it after a reconnect. */
const forcedLate = 10_000 * 1e6

export function noteForce(forces: Force[], { client, name, phase, t }: Event): void {
  if (phase === 'invoke') {
    forces.push({ client, name, from: t, to: Number.POSITIVE_INFINITY })
    return
  }
  const known = forces.findLast((one) => one.client === client && one.name === name)
  if (known !== undefined) known.to = phase === 'ok' ? t : t + forcedLate
}

/**
 * At some moment during the call, the store took the lock from everybody to whom it had granted it by then, also from a holder that had not
 * read the reply yet. A call without an end in the history ends when its client was last seen, or soon after that.
 */
export function markForced(
  drafts: readonly Draft[],
  forces: readonly Force[],
  lastSeen: ReadonlyMap<string, number>,
): void {
  if (forces.length === 0) return
  for (const force of forces) force.to = Math.min(force.to, (lastSeen.get(force.client) ?? 0) + forcedLate)
  const byName = groupBy(forces, (force) => force.name)
  for (const draft of drafts) {
    const { granted, proven, name } = draft
    if (granted === undefined || proven === undefined) continue
    const ended = Math.min(draft.released ?? Number.POSITIVE_INFINITY, draft.lost ?? Number.POSITIVE_INFINITY)
    const force = byName.get(name)?.find(({ from, to }) => proven <= to && ended >= from)
    if (force !== undefined) draft.forced = Math.max(granted, force.from)
  }
}
