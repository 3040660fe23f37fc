/**
 * A picture of who held a name when, as plain data: a row for every process, a bar for every wait and every claim, marks for faults, bands
 * for violations. `renderText` and `renderSvg` draw it; other programs may create such data, too.
 */

import { fatalFault, type ModeKind } from './event.js'
import type { Acquisition, History } from './history.js'
import { intervalEnd, intervalsByName } from './intervals.js'
import type { Violation } from './violation.js'

export interface Timeline {
  readonly title: string
  /** Nanoseconds; anything outside is cut off. */
  readonly from: number
  readonly to: number
  readonly rows: readonly Row[]
  /** Faults that affected every process. */
  readonly marks: readonly Mark[]
  readonly bands: readonly Band[]
  /** One line that explains the bars. */
  readonly note?: string
  /** What was counted, below the title: `156 requests`. */
  readonly summary?: TimelineSummary
}

export interface TimelineSummary {
  readonly text: string
  /** Is it as it should be? */
  readonly good: boolean
}

export interface Row {
  readonly label: string
  readonly bars: readonly Bar[]
  /** Faults of this process. */
  readonly marks: readonly Mark[]
}

export interface Bar {
  readonly from: number
  readonly to: number
  readonly kind: 'waiting' | ModeKind
  /** Text inside the bar, if there is room: the token. */
  readonly text: string
  /** The full text, for output where one can point at the bar. */
  readonly detail: string
  readonly end: 'over' | 'lost' | 'killed' | 'open'
}

export interface Mark {
  readonly at: number
  /** End of a mark with a duration. */
  readonly to?: number
  readonly text: string
}

/** The mark of a store that grants nothing because it may have forgotten holds: no fault. Written as a fault of this kind. */
export const quarantine = 'quarantine'

/** A period in which something was wrong, and the affected rows. */
export interface Band {
  readonly from: number
  readonly to: number
  readonly rows: readonly number[]
  readonly text: string
}

export interface TimelineOptions {
  readonly name: string
  readonly violations?: readonly Violation[]
  /** Nanoseconds since the first event. @default everything related to the name */
  readonly from?: number
  readonly to?: number
  /** @default the name */
  readonly title?: string
  /** What was counted, below the title. */
  readonly summary?: TimelineSummary
  /** Display name of a client. @default its name without the random part */
  readonly label?: (client: string) => string
}

/** The timeline of one name in a history. */
export function createTimeline(history: History, options: TimelineOptions): Timeline {
  const { name, title = name, label = plainLabel } = options
  const all = history.acquisitions.filter((one) => one.name === name)
  const clients = [...new Set(all.map((one) => one.client))]
  const rowOf = new Map(clients.map((client, i) => [client, i]))
  const { text, note } = tokenTexts(all)
  const rows = clients.map((client) => {
    const own = all.filter((one) => one.client === client)
    const waits = own.map((one) => waitBar(one, history.end))
    const pids = new Set(own.map((one) => one.pid))
    return {
      label: label(client),
      bars: waits,
      marks: toMarks(history, (target) => target !== undefined && pids.has(target)),
    }
  })
  for (const claim of intervalsByName(history).get(name) ?? []) {
    const bar = claimBar(claim.of, claim.from, Math.min(claim.to, history.end), claim.mode, text(claim.of))
    rows[rowOf.get(claim.of.client) ?? 0]?.bars.push(bar)
  }
  const bands = (options.violations ?? []).flatMap((one) => {
    if (one.name !== name) return []
    const concerned = [...new Set(one.parties.map((party) => rowOf.get(party.client) ?? 0))]
    return [{ from: one.at, to: one.at + one.lasted, rows: concerned, text: `${one.rule}: ${one.message}` }]
  })
  const [from, to] = extent(all, history, options)
  const marks = toMarks(history, (target) => target === undefined)
  const { summary } = options
  return {
    ...{ title, from, to, rows, marks, bands },
    ...(note !== undefined && { note }),
    ...(summary !== undefined && { summary }),
  }
}

function extent(all: readonly Acquisition[], history: History, options: TimelineOptions): [number, number] {
  const begin = all.reduce((least, one) => Math.min(least, one.invoked), history.end)
  const last = all.reduce((most, one) => Math.max(most, one.events.at(-1)?.t ?? 0), 0)
  const from = options.from ?? begin
  return [from, Math.max(options.to ?? last, from + 1)]
}

const plainLabel = (client: string) => client.replace(/-[0-9a-f]{6}$/, '')

function waitBar(one: Acquisition, end: number): Bar {
  const to = one.granted ?? one.failed ?? one.died ?? end
  const why = one.granted === undefined ? `, then: ${one.events.at(-1)?.kind ?? 'nothing'}` : ''
  const detail = `waited ${milliseconds(to - one.invoked)}${why}`
  return { from: one.invoked, to, kind: 'waiting', text: '', detail, end: 'over' }
}

function claimBar(one: Acquisition, from: number, to: number, kind: ModeKind, text: string): Bar {
  const end = barEnd(one)
  const how = { over: 'released', lost: 'lost', killed: 'killed', open: 'not released' }[end]
  const amount =
    kind === 'permits' ? `${one.permits} of ${one.of} permits, ` : kind === 'shared' ? 'shared, ' : ''
  const detail = `${amount}token ${one.token ?? 'none'}, held ${milliseconds(to - from)}, ${how}`
  return { from, to, kind, text: kind === 'permits' ? `${one.permits}×${text}` : text, detail, end }
}

function barEnd(one: Acquisition): Bar['end'] {
  const end = intervalEnd(one)
  if (end === one.releasing) return 'over'
  if (end === one.died) return 'killed'
  return end === Number.POSITIVE_INFINITY ? 'open' : 'lost'
}

/** Replaces long tokens with their rank; a repeated token shows as a repeated number. */
function tokenTexts(all: readonly Acquisition[]): { text: (one: Acquisition) => string; note?: string } {
  const tokens = [...new Set(all.flatMap((one) => one.token ?? []))].sort((a, b) => a - b)
  const first = tokens[0]
  if (first === undefined || (tokens.at(-1) ?? 0) < 100_000) return { text: (one) => `${one.token ?? ''}` }
  const rank = new Map(tokens.map((token, i) => [token, `#${i + 1}`]))
  return {
    text: (one) => rank.get(one.token ?? 0) ?? '',
    note: `tokens are numbered in their order, #1 is ${first}`,
  }
}

function toMarks(history: History, concerns: (target: number | undefined) => boolean): Mark[] {
  const marks: Mark[] = []
  const open = new Map<string, number>()
  for (const { op, phase, kind = 'fault', attempt = '', target, t } of history.events) {
    if (op !== 'fault' || !concerns(target)) continue
    const begun = open.get(attempt)
    if (phase === 'invoke') open.set(attempt, marks.push({ at: t, text: kind }) - 1)
    else if (begun !== undefined && kind !== fatalFault)
      marks[begun] = { at: marks[begun]?.at ?? t, to: t, text: kind }
  }
  return marks
}

export function milliseconds(nanoseconds: number): string {
  const ms = nanoseconds / 1e6
  if (Math.abs(ms) >= 10_000) return `${(ms / 1000).toFixed(1)} s`
  return `${ms.toFixed(Math.abs(ms) >= 100 ? 0 : Math.abs(ms) >= 1 ? 1 : 3)} ms`
}

/** Round time steps, about `count` of them; for axes. */
export function ticks(
  from: number,
  to: number,
  count: number,
): { readonly at: number; readonly text: string }[] {
  const rough = Math.max(to - from, 1) / Math.max(count, 1)
  const power = 10 ** Math.floor(Math.log10(rough))
  const step = ([1, 2, 5, 10].find((factor) => factor * power >= rough) ?? 10) * power
  const unit = step >= 1e9 ? 's' : step >= 1e6 ? 'ms' : 'µs'
  const size = unit === 's' ? 1e9 : unit === 'ms' ? 1e6 : 1e3
  const found = []
  for (let n = 0; n * step <= to - from; n++) {
    found.push({ at: from + n * step, text: `${Number(((n * step) / size).toPrecision(6))} ${unit}` })
  }
  return found
}
