/**
 * What the machine itself does to a process: its main thread is ready to run, and gets no processor. Linux counts that time exactly, and
 * neither pauses nor a blocked event loop are in it. A wait that is late because of it says nothing about the locks.
 */
import { readFileSync } from 'node:fs'
import type { Event } from './event.js'
import { createHistory, type History } from './history.js'
import type { Recorder } from './record.js'
import type { Violation } from './violation.js'

const kind = 'starved by the machine'
/** How often to look, and which share of that time counts, in ms. */
const look = 250
const least = look / 2

/**
 * Records for how long a process was ready to run and got no processor, from its beginning on, until the returned function is called. Only
 * Linux counts that time.
 * @param pid default: this process
 */
export function watchStarvation(recorder: Recorder, pid: number = process.pid): () => void {
  let before = 0
  const record = () => {
    const now = waited(pid)
    const value = Math.round(now - before)
    before = now
    if (value >= least) recorder.write({ op: 'fault', phase: 'info', kind, target: pid, value })
  }
  record()
  const timer = setInterval(record, look).unref()
  return () => clearInterval(timer)
}

/** In ms since the process began; 0 where the system does not tell, and of a process that is gone. */
function waited(pid: number): number {
  try {
    return Number(readFileSync(`/proc/${pid}/schedstat`, 'utf8').split(' ')[1]) / 1e6
  } catch {
    return 0
  }
}

interface Span {
  readonly from: number
  to: number
}

/** For how long processes got no processor. */
export interface Starvation {
  /** The history without it: nothing that the machine did counts as a fault. */
  readonly history: History
  /** For how much of that time some process was starved, in ms. Times are those of the history. */
  within(from: number, to: number): number
}

/**
 * What `watchStarvation` has recorded.
 * @param also other kinds of faults without an end that count alike; their `value` is in ms
 */
export function findStarvation(whole: History, also: readonly string[] = []): Starvation {
  const kinds = [kind, ...also]
  const isIt = (event: Event) => event.op === 'fault' && kinds.includes(event.kind ?? '')
  const spans: Span[] = []
  const found = whole.events.filter(isIt).map(({ t, value = 0 }) => ({ from: t - value * 1e6, to: t }))
  for (const span of found.sort((a, b) => a.from - b.from)) {
    const last = spans.at(-1)
    if (last !== undefined && span.from <= last.to) last.to = Math.max(last.to, span.to)
    else spans.push(span)
  }
  const common = (span: Span, from: number, to: number) =>
    Math.max(0, Math.min(span.to, to) - Math.max(span.from, from))
  return {
    history: found.length > 0 ? createHistory(whole.events.filter((event) => !isIt(event))) : whole,
    within: (from, to) => spans.reduce((sum, span) => sum + common(span, from, to), 0) / 1e6,
  }
}

/**
 * Is this a late wait that would have kept to the bound without the starvation? One that never ended is not.
 * @param bound `within` of the liveness checker, in ms
 */
export function isLateByStarvation(
  { rule, parties: [one] }: Violation,
  { history, within }: Starvation,
  bound: number,
): boolean {
  const ended = one?.granted ?? one?.failed
  if (one === undefined || rule !== 'liveness' || ended === undefined) return false
  const quiet = history.events.findLast(({ op }) => op === 'fault')?.t ?? 0
  const since = Math.max(quiet, one.invoked)
  return (ended - since) / 1e6 - within(since, ended) <= bound
}
