/** A checker's finding, with what explains it: the story of every party. */
import type { Event } from './event.js'
import type { Acquisition, History } from './history.js'

export type Rule =
  | 'exclusion'
  | 'permits'
  | 'read-write'
  | 'tokens'
  | 'guard'
  | 'witness'
  | 'false-busy'
  | 'fifo'
  | 'liveness'
  | 'leaks'
  | 'commands'

/** One side of a violation: its own events, and the actions and faults of its process around the moment. */
export interface AttemptHistory {
  readonly client: string
  readonly pid: number
  readonly attempt: string
  readonly events: readonly Event[]
}

export interface Violation {
  readonly rule: Rule
  readonly name: string
  /** One sentence, with the figures. */
  readonly message: string
  /** When the violation becomes visible, in nanoseconds since the first event, and how long it lasted. */
  readonly at: number
  readonly lasted: number
  readonly parties: readonly Acquisition[]
  /** Built on first read: a broken lock has many violations, and few are looked at. */
  readonly histories: readonly AttemptHistory[]
}

/** Number of events of the same process shown before and after the moment. */
const context = 3

export function violation(
  history: History,
  about: Omit<Violation, 'histories' | 'lasted'> & { readonly lasted?: number },
): Violation {
  let stories: readonly AttemptHistory[] | undefined
  return {
    lasted: 0,
    ...about,
    get histories() {
      stories ??= about.parties.map((party) => attemptHistory(history, party, about.at))
      return stories
    },
  }
}

const indexes = new WeakMap<History, Map<string, Event[]>>()

/** Events by client; faults under the key `fault`. */
function eventIndex(history: History): Map<string, Event[]> {
  const known = indexes.get(history)
  if (known !== undefined) return known
  const index = new Map<string, Event[]>()
  for (const event of history.events) {
    const key = event.op === 'fault' ? 'fault' : event.client
    const events = index.get(key)
    if (events === undefined) index.set(key, [event])
    else events.push(event)
  }
  indexes.set(history, index)
  return index
}

function attemptHistory(history: History, party: Acquisition, at: number): AttemptHistory {
  const index = eventIndex(history)
  const included = new Set<Event>(party.events)
  const own = index.get(party.client) ?? []
  const middle = firstAfter(own, at)
  for (const event of own.slice(Math.max(0, middle - context), middle + context)) included.add(event)
  const ends = party.events.at(-1)?.t ?? at
  for (const fault of index.get('fault') ?? []) {
    const touches = fault.target === undefined || fault.target === party.pid
    if (touches && fault.t >= party.invoked && fault.t <= Math.max(ends, at)) included.add(fault)
  }
  const events = [...included].sort((a, b) => a.t - b.t)
  return { client: party.client, pid: party.pid, attempt: party.attempt, events }
}

function firstAfter(events: readonly Event[], t: number): number {
  let low = 0
  let high = events.length
  while (low < high) {
    const middle = (low + high) >> 1
    if ((events[middle]?.t ?? 0) <= t) low = middle + 1
    else high = middle
  }
  return low
}

/** Nanoseconds as milliseconds, for sentences. */
export function ms(nanoseconds: number): string {
  const value = nanoseconds / 1e6
  return `${Math.abs(value) >= 100 ? value.toFixed(0) : value.toFixed(3)} ms`
}

/** A violation as text: the sentence, then each party's story with times relative to the moment. */
export function printViolation(violation: Violation): string {
  const lines = [
    `${violation.rule}: ${violation.message}`,
    `  seen ${ms(violation.at)} after the first event`,
  ]
  for (const story of violation.histories) {
    lines.push('', `  ${story.client} (process ${story.pid}), acquisition ${story.attempt}`)
    for (const event of story.events) {
      const mark = event.attempt === story.attempt ? '*' : ' '
      lines.push(`  ${mark} ${relative(event.t - violation.at)}  ${describe(event, violation.at)}`)
    }
  }
  return lines.join('\n')
}

function relative(nanoseconds: number): string {
  const text = (nanoseconds / 1e6).toFixed(3)
  return `${nanoseconds >= 0 ? '+' : ''}${text} ms`.padStart(16)
}

function describe(event: Event, at: number): string {
  const parts =
    event.op === 'fault' ? ['fault', event.kind ?? '', faultPhase(event)] : [event.op, event.phase]
  if (event.name !== undefined) parts.push(JSON.stringify(event.name))
  if (event.op === 'fault' && event.target !== undefined) parts.push(`process ${event.target}`)
  if (event.mode !== undefined && event.mode !== 'exclusive') parts.push(event.mode)
  if (event.permits !== undefined) parts.push(`${event.permits}/${event.of ?? '?'}`)
  if (event.token !== undefined) parts.push(`token ${event.token}`)
  if (event.value !== undefined) parts.push(`value ${event.value}`)
  if (event.until !== undefined) parts.push(`until ${relative(event.until - at).trim()}`)
  if (event.kind !== undefined && event.op !== 'fault') parts.push(`(${event.kind})`)
  return parts.join(' ')
}

const faultPhase = (event: Event) => (event.phase === 'invoke' ? 'begins' : 'ends')
