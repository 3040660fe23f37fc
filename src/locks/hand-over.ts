/**
 * Before a leader steps down: is the candidate that it named queued? Afterwards: does that candidate lead? A candidate
 * is identified by the note of its claim.
 */
import type { Cell } from '../core/cell.js'
import type { CellRef } from '../core/cell-ref.js'
import type { LockStatus } from '../core/driver.js'
import type { Deadline } from '../core/with-deadline.js'
import { parseLeaderRecord } from './leader-record.js'

/** As {@link findCandidate}, in the store. */
export type IsPresent = (candidate: string, except: string, bounds: Deadline) => Promise<boolean | undefined>

/** How often the named candidate is looked for, and how long it must be missing to count as gone, in ms. */
const absence = 1_000

export interface Candidacy {
  readonly candidate: string
  readonly priority: number
}

/** The note of a queued candidate gives its name and priority. */
export function parseCandidacy(note: string | undefined): Candidacy | undefined {
  const [, candidate, priority] = /^candidate (.*), priority (-?\d+)$/s.exec(note ?? '') ?? []
  return candidate === undefined ? undefined : { candidate, priority: Number(priority) }
}

/**
 * Does a candidate of that name wait, or hold the lock by another attempt than `except`? Undefined: not all are listed,
 * and none of those listed has that name.
 */
export function findCandidate(
  { holders, waiters, unlisted = 0 }: Pick<LockStatus, 'holders' | 'unlisted' | 'waiters'>,
  candidate: string,
  except: string,
): boolean | undefined {
  const others = holders.filter(({ attempt }) => attempt !== except)
  const found = [...others, ...waiters].some(({ note }) => parseCandidacy(note)?.candidate === candidate)
  return found || (unlisted > 0 ? undefined : false)
}

/** The term that has just ended. */
interface Former {
  readonly token: number
  readonly attempt: string
  readonly cellRef: CellRef
  readonly isPresent: IsPresent
}

/**
 * Waits for the next leader. False: somebody else leads, or nobody, and the candidate has gone. Undefined: there was
 * time for one look only.
 */
export function isFollowedBy(
  candidate: string,
  { token, attempt, cellRef, isPresent }: Former,
  bounds: Deadline,
): Promise<boolean | undefined> {
  const { clock, traits } = cellRef.engine
  let missingSince = Number.POSITIVE_INFINITY
  const look = async (cell: Cell | undefined) => {
    const record = parseLeaderRecord(cell)
    if (record !== undefined && record.token > token) return record.candidate === candidate
    // A store that is read in several steps may miss it once, while it turns from a waiter into the holder.
    if (clock.now() - missingSince >= absence) return false
    // Without a FIFO queue a candidate is in no list between two attempts.
    const missing = traits.fair && (await isPresent(candidate, attempt, bounds)) === false
    missingSince = missing ? Math.min(missingSince, clock.now()) : Number.POSITIVE_INFINITY
    return undefined
  }
  return cellRef.waitUntil(look, bounds, absence)
}
