/** What became of a run: its exit code, and what the user is told. */

import { formatDuration } from '../duration.js'
import { exits } from '../exit.js'
import { plain } from '../print.js'
import type { Child, Ending } from './child.js'
import { groupAlive } from './group.js'
import type { Claim, ToFront } from './messages.js'
import { holderText, type Report } from './report.js'
import { signalNumber, type Taken } from './signals.js'

type Message<T extends ToFront['type']> = Extract<ToFront, { type: T }>

export interface Run {
  /** The command's first instruction may have run. */
  readonly ran: boolean
  readonly ending: Ending | undefined
  /** The signal that ended the wait. */
  readonly cancelled: Taken | undefined
}

/** The lock was given back, or lost, and the command is gone. */
export function exitCodeAfter(
  { outcome, stopped }: Message<'done'>,
  { ran, ending, cancelled }: Run,
): number {
  if (stopped === 'max-hold') return exits.maxHold
  if (stopped === 'lost' || (ran && outcome === 'lost')) return exits.lost
  if (!ran && cancelled !== undefined) return 128 + signalNumber(cancelled)
  return ending?.code ?? exits.internal
}

export function tellDone(report: Report, done: Message<'done'>, run: Run, ttl: number): void {
  const { outcome, stopped } = done
  const code = run.ending?.code ?? null
  report.tell('ended', { code, ran: run.ran, outcome, ...(stopped !== undefined && { stopped }) }, undefined)
  if (run.ran && outcome === 'lost' && stopped === undefined) {
    report.tell('lost', { code }, `the command ended with code ${code}, but the lease was lost before`, true)
  }
  if (outcome === 'unknown') {
    const text = `the store did not answer to the release; it lets go by itself within ${formatDuration(ttl)}`
    report.tell('unreleased', {}, text, true)
  }
}

export function tellBusy(
  report: Report,
  { blocked, waited, tooSoon }: Message<'busy'>,
  name: string,
  env: NodeJS.ProcessEnv,
): void {
  const after = waited < 1 ? 'is not free' : `was not free within ${formatDuration(waited)}`
  const what = tooSoon ? 'was run less than its --min-hold ago' : `${after}${holderText(blocked.holder)}`
  const own = env.HOLDFAST_NAME === name ? '; this command itself runs under it' : ''
  report.tell(
    'busy',
    { waited: Math.round(waited), ...blocked, ...(tooSoon && { tooSoon }) },
    `"${plain(name)}" ${what}${own}; the command was not started`,
    true,
  )
}

export function tellStopping(
  report: Report,
  { why, signal, detail }: Message<'stopping'>,
  { maxHold }: Claim,
): void {
  const losing = signal === 'SIGKILL' ? 'the lease is lost' : 'the lease is being lost'
  const reason = why === 'max-hold' ? `it ran longer than ${formatDuration(maxHold)}` : losing
  const more = detail === '' ? '' : ` (${detail})`
  report.tell(
    'stopping',
    { why, signal, ...(detail !== '' && { detail }) },
    `stopping the command with ${signal}: ${reason}${more}`,
    true,
  )
}

export function tellDoubtful(report: Report, { stopIn }: Message<'doubtful'>): void {
  report.tell(
    'doubtful',
    { stopIn: Math.round(stopIn) },
    `the store does not answer; the command will be stopped in ${formatDuration(stopIn)} unless it does`,
  )
}

/** A command that leaves something in the background has it run without the lock. */
export function tellLeftovers(report: Report, child: Child | undefined): void {
  if (child === undefined || process.platform === 'win32' || !groupAlive(child.group)) return
  const { group } = child
  report.tell(
    'left-running',
    { group },
    `the command left processes running (group ${group}); they do not hold the lock`,
  )
}

/** The keeper is gone or stands still. @returns the exit code */
export function tellTakeOver(report: Report, why: string, { ran, ending }: Run): number {
  if (!ran) {
    report.tell('failed', { message: why }, `${why}; the command was not started`, true)
    return exits.internal
  }
  const facts = { why: 'lost', signal: 'SIGKILL', detail: why }
  if (ending === undefined) report.tell('stopping', facts, `${why}; ending the command with SIGKILL`, true)
  else {
    const text = `${why} before it could tell whether the lock was held until the command ended, with code ${ending.code}`
    report.tell('lost', { code: ending.code, detail: why }, text, true)
  }
  return exits.lost
}
