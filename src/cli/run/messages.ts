/**
 * The messages between the two halves of `holdfast run`. The *supervisor* is the process the user started: it owns terminal, signals and exit
 * code, and starts the command. The *lock process* holds the lock and decides when the command must end.
 *
 * ```
 *   supervisor                           lock process
 *     ── claim ───────────────────────────►  queues for the lock
 *     ◄────────────────────────── waiting ──  (repeatedly)
 *     ◄────────────────────────── granted ──
 *     starts the command behind a gate
 *     ── started (its process group) ─────►  from now on ends the group if the supervisor dies or the lease ends
 *     ◄─────────────────────────────── go ──
 *     opens the gate: the first instruction of the command runs
 *     ◄──────────── proof, doubtful, stopping
 *     ── ended ───────────────────────────►
 *     ◄─────────────────────────── judged ──  waits for --min-hold, releases
 *     ◄───────────────────────────── done ──
 * ```
 * Sent with structured clone, because JSON has no Infinity.
 */
import type { BackendError, ReleaseOutcome, WaitStatus } from 'holdfast'
import type { Failure } from '../failure.js'

/** All durations in ms. */
export interface RunLimits {
  /** From one renewal to the end of the lease: as requested, or less if the store gives less. */
  readonly ttl: number
  /** From TERM to KILL. */
  readonly killAfter: number
  /** From KILL to the moment at which the lease can no longer be proven. */
  readonly margin: number
  readonly minHold: number
  readonly maxHold: number
}

export type RequestedMode =
  | { readonly kind: 'exclusive' }
  | { readonly kind: 'shared' }
  | { readonly kind: 'permits'; readonly take: number; readonly of: number }

export interface RunRequest extends RunLimits {
  readonly type: 'claim'
  /** A command that starts once the lock is held, or an existing process (`hold`). */
  readonly for: 'command' | 'owner'
  readonly on: string | undefined
  /** `--insecure`, which no URL contains. */
  readonly insecure: boolean
  /** Names of the locks, each once, in the order given; at least one. */
  readonly names: readonly string[]
  readonly mode: RequestedMode
  readonly wait: number
  readonly fair: boolean
  /** `--kill-after` was given, so it must not be shortened. */
  readonly hasKillAfter: boolean
  readonly note: string | undefined
  /** Poll the store while waiting: somebody is watching. */
  readonly watched: boolean
}

export type ToLockProcess =
  | RunRequest
  /** Ends the wait, or the rest of --min-hold. */
  | { readonly type: 'cancel' }
  | { readonly type: 'started'; readonly group: number }
  | { readonly type: 'ended' }

export type ToSupervisor =
  | {
      readonly type: 'waiting'
      /** The lock currently waited for. */
      readonly name: string
      readonly blocked: Omit<WaitStatus, 'error'>
      readonly waiters?: number
      /** Why the store cannot be reached. */
      readonly error?: StoreError
      /** It has never answered, and refuses connections: no wait for its start is a short one. */
      readonly atOnce?: boolean
    }
  /** `tokens` in the order of the names. */
  | { readonly type: 'granted'; readonly tokens: readonly number[] }
  /**
   * `name`: one of the locks that were not free; undefined: not known which. `tooSoon`: nobody holds the lock, but a run began less than
   * its minimum ago.
   */
  | {
      readonly type: 'busy'
      readonly name: string | undefined
      readonly blocked: Blocked
      readonly waited: number
      readonly tooSoon: boolean
    }
  | { readonly type: 'failed'; readonly failure: Failure }
  /** `terms`: those of the claim, cut to what the granted lease can keep. */
  | { readonly type: 'go'; readonly heldUntil: number; readonly terms: RunLimits }
  /** The command must be gone by `heldUntil` (see {@link machineTime}), unless a later proof extends it. */
  | { readonly type: 'proof'; readonly heldUntil: number }
  /** `refusal`: what the store last answered instead of renewing; undefined: it did not answer. */
  | { readonly type: 'doubtful'; readonly stopIn: number; readonly refusal: string | undefined }
  | {
      readonly type: 'stopping'
      readonly why: StopCause
      readonly signal: NodeJS.Signals
      readonly detail: string
    }
  /** The command is gone; `held`: the lease was held until then. Next: the rest of --min-hold and the release. */
  | { readonly type: 'judged'; readonly held: boolean }
  /** A signal was sent to the lock process, whose process id `holdfast ls` shows. */
  | { readonly type: 'signal'; readonly signal: NodeJS.Signals }
  | { readonly type: 'done'; readonly outcome: ReleaseOutcome; readonly stopped: StopCause | undefined }

/** A WaitStatus as data. */
export type Blocked = Omit<WaitStatus, 'error'> & { readonly error?: StoreError }

export function toBlocked({ error, ...blocked }: WaitStatus): Blocked {
  return { ...blocked, ...(error !== undefined && { error: storeError(error) }) }
}

/** A BackendError as data: in transit, and in JSON, an Error loses its message. */
export interface StoreError extends Pick<BackendError, 'code' | 'message'> {
  readonly reason?: string
  readonly address?: string
}

export function storeError({ code, message, reason, address }: BackendError): StoreError {
  return { code, message, ...(reason !== undefined && { reason }), ...(address !== undefined && { address }) }
}

/** Suffix of a message that says why the lock is not held. */
export function notStarted({ for: holder }: Pick<RunRequest, 'for'>): string {
  return holder === 'command' ? '; the command was not started' : ''
}

/** Why the lock process ended the command. */
export type StopCause = 'lost' | 'max-hold' | 'supervisor-gone'

/** Monotonic ms on a clock that all processes of the machine share. The library's own clock is private to a process. */
export function machineTime(): number {
  return Number(process.hrtime.bigint() / 1000n) / 1000
}
