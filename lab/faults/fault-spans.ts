/** When each fault of a run began and ended. */
import type { History } from 'holdfast/verify'

export interface FaultSpan {
  readonly kind: string
  /** The process it was for; undefined: all. */
  readonly target: number | undefined
  readonly from: number
  readonly to: number
}

export function faultSpans(history: History): FaultSpan[] {
  const open = new Map<string, FaultSpan & { to: number }>()
  for (const { op, phase, kind = '', attempt = '', target, t } of history.events) {
    if (op !== 'fault') continue
    const known = open.get(attempt)
    if (phase === 'invoke') open.set(attempt, { kind, target, from: t, to: Number.POSITIVE_INFINITY })
    else if (known !== undefined) known.to = t
  }
  return [...open.values()]
}
