/**
 * `--no-wait`: the command as a job, with the rules and the stored state of `locks.job`, so that hosts that run it from here and hosts that
 * run it from a program skip each other.
 */
import type { Lease, Locks } from 'holdfast'
import { inspectAgain } from './acquire.js'
import { type RunRequest, toBlocked } from './messages.js'
import type { SupervisorChannel } from './supervisor-channel.js'

/**
 * A job has exactly one name. Without cells, or with several names, the lock process holds the lock for the rest of `--min-hold`, as it does for
 * a command that waited.
 */
export function isJob({ driver }: Locks, { for: holder, names, wait, mode, fair }: RunRequest): boolean {
  return (
    holder === 'command' &&
    names.length === 1 &&
    wait === 0 &&
    mode.kind === 'exclusive' &&
    !fair &&
    driver.traits.cells === true
  )
}

export async function serveJob(
  locks: Locks,
  claim: RunRequest,
  supervisor: SupervisorChannel,
  hold: (locks: Locks, lease: Lease, claim: RunRequest, supervisor: SupervisorChannel) => Promise<void>,
): Promise<void> {
  const { names, ttl, minHold, note } = claim
  const [name = ''] = names
  let begun = false
  let told = false
  // `--max-hold` ends the command, not the lease under it: the lock process enforces it.
  const job = locks.job(name, { ttl, minHold, ...(note !== undefined && { note }) })
  try {
    const running = job.run(async (lease) => {
      if (supervisor.cancelled.aborted) return
      begun = true
      // The cell keeps the rest of the minimum, even if this process dies.
      await hold(locks, lease, { ...claim, minHold: 0 }, supervisor)
      told = true
    })
    const run = await Promise.race([running, cancelled(supervisor, () => begun)])
    if (run === undefined) return void running.catch(() => undefined)
    if (run.ran) return
    const tooSoon = run.why === 'too-soon'
    const blocked = tooSoon ? {} : await inspectAgain(locks, name).catch(() => ({}))
    supervisor.send({ type: 'busy', name, waited: 0, blocked: toBlocked(blocked), tooSoon })
  } catch (error) {
    // A lost lease has already been reported, with the fate of the command.
    if (!told) throw error
  }
}

/** Resolves if the run is cancelled before it has begun: do not wait for a store that does not answer. */
function cancelled({ cancelled }: SupervisorChannel, begun: () => boolean): Promise<undefined> {
  return new Promise((resolve) => {
    const end = () => begun() || resolve(undefined)
    if (cancelled.aborted) end()
    else cancelled.addEventListener('abort', end, { once: true })
  })
}
