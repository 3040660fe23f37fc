/**
 * `--no-wait`: the command as a job, by the rules of `locks.job` and with what that keeps in the store, so that a host that runs it from here and one
 * that runs it from a program skip each other.
 */
import type { Lease, Locks } from 'holdfast'
import type { Front } from './listen.js'
import type { Claim } from './messages.js'
import { lookAgain } from './stand.js'

/** Without cells the keeper holds the lock for the rest of `--min-hold`, as it does for a command that waited. */
export function isJob({ driver }: Locks, { wait, asked, fair }: Claim): boolean {
  return wait === 0 && asked.kind === 'exclusive' && !fair && driver.traits.cells === true
}

export async function serveJob(
  locks: Locks,
  claim: Claim,
  front: Front,
  hold: (locks: Locks, lease: Lease, claim: Claim, front: Front) => Promise<void>,
): Promise<void> {
  const { name, ttl, minHold, note } = claim
  let begun = false
  let told = false
  // `--max-hold` ends the command, not the lease under it: that is the keeper's own work.
  const job = locks.job(name, { ttl, minHold, ...(note !== undefined && { note }) })
  try {
    const running = job.run(async (lease) => {
      if (front.cancelled.aborted) return
      begun = true
      // The cell keeps the rest, whoever lives.
      await hold(locks, lease, { ...claim, minHold: 0 }, front)
      told = true
    })
    const run = await Promise.race([running, cancelled(front, () => begun)])
    if (run === undefined) {
      running.catch(() => undefined)
      return front.tell({ type: 'done', outcome: 'already-released', stopped: undefined })
    }
    if (run.ran) return
    const tooSoon = run.why === 'too-soon'
    const blocked = tooSoon ? {} : await lookAgain(locks, name).catch(() => ({}))
    front.tell({ type: 'busy', waited: 0, blocked, tooSoon })
  } catch (error) {
    // A lease that was lost has been told of with what became of the command.
    if (!told) throw error
  }
}

/** Resolves when it is not wanted any more, before it has begun: a store that does not answer is not waited for. */
function cancelled({ cancelled }: Front, begun: () => boolean): Promise<undefined> {
  return new Promise((resolve) => {
    const end = () => begun() || resolve(undefined)
    if (cancelled.aborted) end()
    else cancelled.addEventListener('abort', end, { once: true })
  })
}
