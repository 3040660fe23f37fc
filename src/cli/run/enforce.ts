/** Ends a process group when its lease ends, its time is up, or on request: before another process could get the lease. */
import type { Lease } from 'holdfast'
import { groupAlive, signalGroup } from './group.js'
import type { RunLimits, StopCause } from './messages.js'
import { decide } from './policy.js'

/** The longest interval between two clock checks, in ms: after a sleep of the machine, timers fire late. */
const checkInterval = 500
/** How often to check whether the group is gone, after TERM and after KILL. */
const checksAfterKill = { SIGTERM: 50, SIGKILL: 10 } as const

export interface Enforcer {
  /** Call it when the lease changed: decides again. */
  look(): void
  /** Ends the group: TERM, then KILL. Idempotent; the first cause stands. */
  stop(why: StopCause): void
  /** The command ended by itself: stops enforcing, unless the group is already being ended. */
  release(): void
  readonly stopped: StopCause | undefined
  /** Resolves once a group being ended is gone, or if we cannot end it. */
  readonly gone: Promise<void>
}

export type Report = (why: StopCause, signal: NodeJS.Signals, detail: string) => void

export function enforce(
  group: number,
  lease: Pick<Lease, 'remaining' | 'state'>,
  terms: RunLimits,
  report: Report,
): Enforcer {
  const started = performance.now()
  let termed: number | undefined
  let stopped: StopCause | undefined
  let timer: NodeJS.Timeout | undefined
  let over = false
  let resolveGone: () => void
  const gone = new Promise<void>((resolve) => {
    resolveGone = resolve
  })

  const finish = () => {
    over = true
    clearTimeout(timer)
    resolveGone()
  }
  const send = (why: StopCause, signal: 'SIGTERM' | 'SIGKILL') => {
    const first = stopped === undefined
    stopped ??= why
    const outcome = signalGroup(group, signal)
    if (first || outcome === 'denied')
      report(stopped, signal, outcome === 'denied' ? 'it runs as another user' : '')
    if (signal === 'SIGTERM') termed = performance.now()
    // Nothing more can be done: the lease ends while a process we may not signal continues.
    if (outcome === 'denied' && lease.remaining() === 0) finish()
  }
  const look = () => {
    if (over) return
    clearTimeout(timer)
    if (stopped !== undefined && !groupAlive(group)) return finish()
    const now = performance.now()
    const { signal, why, again } = decide(terms, {
      remaining: lease.remaining(),
      held: now - started,
      stopping: termed === undefined ? undefined : now - termed,
    })
    if (signal !== undefined) send(why, signal)
    if (over) return
    const check = checksAfterKill[signal ?? 'SIGTERM']
    timer = setTimeout(
      look,
      Math.min(again === 0 ? check : again, stopped === undefined ? checkInterval : check),
    )
  }

  look()
  return {
    look,
    stop: (why) => {
      if (stopped !== undefined || over) return
      send(why, 'SIGTERM')
      look()
    },
    release: () => {
      if (stopped === undefined) finish()
    },
    get stopped() {
      return stopped
    },
    gone,
  }
}
