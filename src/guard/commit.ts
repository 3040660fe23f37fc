/**
 * The guard for stores that cannot compare by size but report a version of what they keep: it reads token and
 * version, compares here, and writes only if the version is still the same. The write is the step that counts: it
 * fails when somebody else wrote in between.
 */
import { StaleTokenError, VersionConflictError } from '../core/errors.js'
import { describe } from '../core/name.js'
import { checkFence, type Fence, tokenFrom } from './fence.js'

export interface GuardedCommit<Version> {
  /** The name of the resource, for messages. */
  readonly name: string
  readonly fence: Fence
  /** How often to read and write before giving up; each failure means that somebody else wrote meanwhile. @default 10 */
  readonly attempts?: number
  /** The newest token, as it was written, and its version; `undefined`: nothing was written yet. */
  read(): Promise<{ readonly token?: string | Uint8Array | undefined; readonly version: Version } | undefined>
  /**
   * Writes everything and the token in one step, if the version is still `seen` (`undefined`: if there is still
   * nothing). False: the version has changed.
   */
  write(token: string, seen: Version | undefined): Promise<boolean>
}

export function checkAttempts(attempts: number): void {
  if (!Number.isInteger(attempts) || attempts < 1)
    throw new RangeError(`attempts must be an integer of at least 1, got ${describe(attempts)}`)
}

/** @throws StaleTokenError; VersionConflictError after the last attempt; LeaseLostError; what `read` and `write` throw */
export async function guardedCommit<Version>(commit: GuardedCommit<Version>): Promise<void> {
  const { name, fence, attempts = 10 } = commit
  checkAttempts(attempts)
  for (let attempt = 0; attempt < attempts; attempt++) {
    checkFence(fence)
    const there = await commit.read()
    const newest = tokenFrom(there?.token, name)
    if (newest > fence.token) throw new StaleTokenError(fence.name, fence.token, newest)
    if (await commit.write(String(fence.token), there?.version)) return
  }
  throw new VersionConflictError(name, attempts)
}
