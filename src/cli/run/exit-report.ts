/** The result of a run: its exit code and the messages for the user. */

import { formatDuration } from '../duration.js'
import { exits } from '../exit.js'
import { type Failure, failureOf } from '../failure.js'
import { plain, quoted } from '../print.js'
import type { Child, Ending } from './child.js'
import { groupAlive } from './group.js'
import { notStarted, type RunRequest, type ToSupervisor } from './messages.js'
import { holderText, type Report } from './report.js'
import { type ForwardedSignal, signalNumber } from './signals.js'
import { findOuterHolds } from './variables.js'

type Message<T extends ToSupervisor['type']> = Extract<ToSupervisor, { type: T }>

export interface Run {
  /** The command's first instruction may have run. */
  readonly ran: boolean
  readonly ending: Ending | undefined
  /** The signal that ended the wait. */
  readonly cancelled: ForwardedSignal | undefined
  /** The lock process's verdict on the lease, at the end of the command. */
  readonly held: boolean | undefined
  /** Of the lease, in ms. */
  readonly ttl: number
  readonly for: RunRequest['for']
}

/** The lock was released or lost, and the command is gone. */
export function exitCodeAfter(
  { outcome, stopped }: Message<'done'>,
  { ran, ending, cancelled, for: holder }: Run,
): number {
  if (stopped === 'max-hold') return exits.maxHold
  if (stopped === 'lost' || (ran && outcome === 'lost')) return exits.lost
  if (!ran && cancelled !== undefined) return 128 + signalNumber(cancelled)
  // A script that asked for the release must not read success; a command has a code of its own.
  if (holder === 'owner' && outcome === 'unknown') return exits.unavailable
  return ending?.code ?? exits.internal
}

export function reportDone(report: Report, done: Message<'done'>, run: Run): void {
  const { outcome, stopped } = done
  const code = run.ending?.code ?? null
  report.write('ended', { code, ran: run.ran, outcome, ...(stopped !== undefined && { stopped }) }, undefined)
  if (run.ran && outcome === 'lost' && stopped === undefined) {
    report.write('lost', { code }, `the command ended with code ${code}, but the lease was lost before`, true)
  }
  if (outcome === 'unknown') {
    reportUnreleased(report, 'the store did not answer to the release', run)
  }
}

function reportUnreleased(report: Report, why: string, { ttl, for: holder }: Run): void {
  const known = holder === 'owner' ? 'the lock was held until then, and' : 'the lock'
  report.write('unreleased', {}, `${why}; ${known} frees itself within ${formatDuration(ttl)}`, true)
}

export function reportBusy(
  report: Report,
  { name, blocked, waited, tooSoon }: Message<'busy'>,
  claim: RunRequest,
  env: NodeJS.ProcessEnv,
): void {
  const { names } = claim
  const after = waited < 1 ? 'is not free' : `was not free within ${formatDuration(waited)}`
  const what = tooSoon ? 'was run less than its --min-hold ago' : `${after}${holderText(blocked.holder)}`
  const around = findOuterHolds(env, names)
  const it = names.length === 1 ? 'it' : `"${plain(around ?? '')}"`
  const own = around === undefined ? '' : `; this command itself runs under ${it}`
  const which = name === undefined ? `one of ${quoted(names)}` : `"${plain(name)}"`
  report.write(
    'busy',
    {
      ...(name !== undefined && { name }),
      waited: Math.round(waited),
      ...blocked,
      ...(tooSoon && { tooSoon }),
    },
    `${which} ${what}${own}${notStarted(claim)}`,
  )
}

export function reportStopping(
  report: Report,
  { why, signal, detail }: Message<'stopping'>,
  { maxHold, for: holder }: RunRequest,
): void {
  const losing = signal === 'SIGKILL' ? 'the lease is lost' : 'the lease is being lost'
  const reason = why === 'max-hold' ? `it ran longer than ${formatDuration(maxHold)}` : losing
  const more = detail === '' ? '' : ` (${detail})`
  report.write(
    'stopping',
    { why, signal, ...(detail !== '' && { detail }) },
    `stopping ${subject(holder)} with ${signal}: ${reason}${more}`,
    true,
  )
}

/** What is stopped when the lease is lost. */
const subject = (holder: RunRequest['for']): string => (holder === 'command' ? 'the command' : 'the script')

/** The command was not started. */
export function reportFailure(report: Report, error: Failure): void {
  report.write('failed', { error }, error.message, true)
}

export function reportDoubtful(
  report: Report,
  { stopIn, refusal }: Message<'doubtful'>,
  { for: holder }: RunRequest,
): void {
  const what =
    refusal === undefined ? 'the store does not answer' : `the lock is not renewed: ${plain(refusal)}`
  report.write(
    'doubtful',
    { stopIn: Math.round(stopIn), ...(refusal !== undefined && { refusal }) },
    `${what}; ${subject(holder)} will be stopped in ${formatDuration(stopIn)} unless it ${refusal === undefined ? 'does' : 'is'}`,
  )
}

/** Why the command could not be started, and the exit code a shell uses for that. */
export function startFailure(error: unknown): { readonly code: number; readonly message: string } {
  const why = error instanceof Error ? error.message : String(error)
  if ((error as NodeJS.ErrnoException | null)?.code !== 'E2BIG')
    return { code: exits.internal, message: `the command cannot be started: ${plain(why)}` }
  return {
    code: exits.notExecutable,
    message:
      'the command cannot be started: its arguments and environment are too long for this system, with HOLDFAST_NAMES among them (E2BIG); ' +
      'shorten them, or name fewer locks',
  }
}

/** Reports processes that the command left in the background: they run without the lock. */
export function reportLeftovers(report: Report, child: Child | undefined): void {
  if (child === undefined || process.platform === 'win32' || !groupAlive(child.group)) return
  const { group } = child
  report.write(
    'left-running',
    { group },
    `the command left processes running (group ${group}); they do not hold the lock`,
  )
}

/** The lock process is gone or not responding. @returns the exit code */
export function reportTakeOver(report: Report, why: string, run: Run): number {
  const { ran, ending, held } = run
  if (ending !== undefined && held === true) {
    reportUnreleased(report, `${why} before it had released the lock`, run)
    return run.for === 'owner' ? exits.unavailable : ending.code
  }
  if (!ran) {
    reportFailure(report, failureOf(`${why}${notStarted(run)}`, exits.internal))
    return exits.internal
  }
  const facts = { why: 'lost', signal: 'SIGKILL', detail: why }
  if (ending === undefined)
    report.write('stopping', facts, `${why}; ending ${subject(run.for)} with SIGKILL`, true)
  else {
    const text = `${why}; it is not known whether the lock was held until the command ended, with code ${ending.code}`
    report.write('lost', { code: ending.code, detail: why }, text, true)
  }
  return exits.lost
}
