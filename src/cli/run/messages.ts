/**
 * What the two halves of `holdfast run` tell each other. The *front* is the process the user started: it owns terminal, signals and
 * exit code, and starts the command. The *keeper* holds the lock and decides when the command must end.
 *
 * ```
 *   front                                keeper
 *     ── claim ───────────────────────────►  stands in line
 *     ◄────────────────────────── waiting ──  (again and again)
 *     ◄────────────────────────── granted ──
 *     starts the command behind a gate
 *     ── started (its process group) ─────►  from here on it ends the group if the front dies or the lease does
 *     ◄─────────────────────────────── go ──
 *     opens the gate: the first instruction of the command runs
 *     ◄──────────── proof, doubtful, stopping
 *     ── ended ───────────────────────────►  waits for --min-hold, releases
 *     ◄───────────────────────────── done ──
 * ```
 * Sent with structured clone, because JSON has no Infinity.
 */
import type { Blocked, ReleaseOutcome } from 'holdfast'

/** All durations in ms. */
export interface Terms {
  readonly ttl: number
  /** Between TERM and KILL. */
  readonly killAfter: number
  /** Between KILL and the moment at which the lease can no longer be proven. */
  readonly margin: number
  readonly minHold: number
  readonly maxHold: number
}

export type Asked =
  | { readonly kind: 'exclusive' }
  | { readonly kind: 'shared' }
  | { readonly kind: 'permits'; readonly take: number; readonly of: number }

export interface Claim extends Terms {
  readonly type: 'claim'
  readonly on: string | undefined
  readonly name: string
  readonly asked: Asked
  readonly wait: number
  readonly fair: boolean
  readonly note: string | undefined
  /** Ask the store again while waiting: somebody is watching. */
  readonly watched: boolean
}

export type ToKeeper =
  | Claim
  /** The wait is over, or the rest of --min-hold is not wanted. */
  | { readonly type: 'cancel' }
  | { readonly type: 'started'; readonly group: number }
  | { readonly type: 'ended' }

export type ToFront =
  | {
      readonly type: 'waiting'
      readonly blocked: Omit<Blocked, 'trouble'>
      readonly waiters?: number
      /** Why the store cannot be asked: an error would lose its message on the way. */
      readonly trouble?: string
    }
  | { readonly type: 'granted'; readonly token: number }
  /** `tooSoon`: nobody holds it, but a run began less than its minimum ago. */
  | { readonly type: 'busy'; readonly blocked: Blocked; readonly waited: number; readonly tooSoon: boolean }
  | { readonly type: 'failed'; readonly exitCode: number; readonly message: string }
  | { readonly type: 'go'; readonly heldUntil: number }
  /** By `heldUntil` (see {@link machineTime}) the command must be gone, unless a later proof says otherwise. */
  | { readonly type: 'proof'; readonly heldUntil: number }
  | { readonly type: 'doubtful'; readonly stopIn: number }
  | {
      readonly type: 'stopping'
      readonly why: StopCause
      readonly signal: NodeJS.Signals
      readonly detail: string
    }
  /** Somebody sent the keeper a signal, because its process id is the one that `holdfast ls` shows. */
  | { readonly type: 'signal'; readonly signal: NodeJS.Signals }
  | { readonly type: 'done'; readonly outcome: ReleaseOutcome; readonly stopped: StopCause | undefined }

/** Why the keeper ended the command. */
export type StopCause = 'lost' | 'max-hold' | 'front-gone'

/** Monotonic ms on a clock that all processes of the machine share. The library's own clock is private to a process. */
export function machineTime(): number {
  return Number(process.hrtime.bigint() / 1000n) / 1000
}
