/** Reads and writes of a guarded resource, each with its call and its reply. */
import type { Event } from '../event.js'
import { groupBy } from '../group-by.js'
import type { Acquisition, History } from '../history.js'

export interface Access {
  readonly op: 'read' | 'write'
  readonly name: string
  readonly attempt: string
  readonly token: number | undefined
  readonly invoked: number
  /** Infinity: no reply in the history. */
  readonly ended: number
  /** `unknown`: it may or may not have been applied. */
  readonly outcome: 'ok' | 'refused' | 'unknown'
  readonly kind: string | undefined
  readonly value: number | undefined
  readonly seq: number | undefined
}

/** By name, ordered by call. An acquisition has at most one pending access. */
export function accessesByName(history: History): Map<string, Access[]> {
  const all: Access[] = []
  const open = new Map<string, Event>()
  for (const event of history.events) {
    if ((event.op !== 'read' && event.op !== 'write') || event.attempt === undefined) continue
    const invoke = open.get(event.attempt)
    if (event.phase === 'invoke') {
      if (invoke !== undefined) all.push(access(invoke, undefined))
      open.set(event.attempt, event)
    } else {
      open.delete(event.attempt)
      all.push(access(invoke ?? event, event))
    }
  }
  for (const invoke of open.values()) all.push(access(invoke, undefined))
  all.sort((a, b) => a.invoked - b.invoked)
  return groupBy(all, (one) => one.name)
}

function access(invoke: Event, answer: Event | undefined): Access {
  const outcome = answer?.phase === 'ok' ? 'ok' : answer?.phase === 'fail' ? 'refused' : 'unknown'
  return {
    op: invoke.op === 'read' ? 'read' : 'write',
    name: invoke.name ?? '',
    attempt: invoke.attempt ?? '',
    token: invoke.token ?? answer?.token,
    invoked: invoke.t,
    ended: answer?.t ?? Number.POSITIVE_INFINITY,
    outcome,
    kind: answer?.kind,
    value: answer?.value ?? invoke.value,
    seq: answer?.seq,
  }
}

/** Finds the acquisitions behind accesses, for the stories. */
export function findParties(history: History): (...accesses: readonly Access[]) => Acquisition[] {
  let byAttempt: Map<string, Acquisition> | undefined
  return (...accesses) => {
    byAttempt ??= new Map(history.acquisitions.map((one) => [one.attempt, one]))
    return accesses.flatMap((one) => byAttempt?.get(one.attempt) ?? [])
  }
}
