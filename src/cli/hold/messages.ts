/**
 * Messages between `holdfast hold` and the process it leaves behind.
 *
 * ```
 *   holdfast hold                        background (the supervisor of a run, see run/messages.ts)
 *     ── hold ────────────────────────────►  asks for the lock
 *     ◄───────────────────────── report ──   (what the user should know)
 *     ◄─────────────────────────── held ──
 *     prints the token
 *     ── kept ────────────────────────────►  stays
 *     ◄─────────────────────────── over ──   instead of `held`: there is no lock
 * ```
 * If the first process ends before it has sent `kept`, nobody knows of the lock, and it is released.
 */
import type { RunRequest } from '../run/messages.js'
import type { Report } from '../run/report.js'
import type { Owner } from './owner.js'

export interface HoldPlan {
  readonly type: 'hold'
  readonly claim: RunRequest
  readonly conflictExitCode: number
  readonly owner: Owner
  /** The standard error of the script is open here, too: how to write to it. */
  readonly told: { readonly json: boolean; readonly quiet: boolean } | undefined
}

export type ToBackground = HoldPlan | { readonly type: 'kept' }

export type ToStarter =
  | { readonly type: 'waiting'; readonly args: Parameters<Report['waiting']> }
  | { readonly type: 'waited'; readonly args: [] }
  | { readonly type: 'tell'; readonly args: Parameters<Report['write']> }
  | { readonly type: 'held'; readonly token: number }
  | { readonly type: 'over'; readonly exitCode: number }
