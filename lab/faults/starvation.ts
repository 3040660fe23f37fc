/**
 * What the machine itself does to a process: its main thread is ready to run, and gets no processor. The kernel counts that time exactly, and
 * neither pauses nor a blocked event loop are in it.
 */
import { readFileSync } from 'node:fs'
import { createHistory, type Event, type History, type Recorder } from 'holdfast/verify'

const kind = 'starved by the machine'
const noAnswer = 'no answer of the store'
/** How often to look, and which share of that time counts, in ms. */
const look = 250
const least = look / 2

/** Records it until the returned function is called. */
export function watchStarvation(journal: Recorder): () => void {
  let before = waited()
  const timer = setInterval(() => {
    const now = waited()
    const value = Math.round(now - before)
    before = now
    if (value >= least) journal.write({ op: 'fault', phase: 'info', kind, target: process.pid, value })
  }, look).unref()
  return () => clearInterval(timer)
}

/** In ms since the process began; 0 where the system does not tell. */
function waited(): number {
  try {
    return Number(readFileSync('/proc/self/schedstat', 'utf8').split(' ')[1]) / 1e6
  } catch {
    return 0
  }
}

/** How long a store may take to answer before that counts, in ms. */
const prompt = 500

export interface StoreWatch {
  /** For how long the store has not answered so far, in ms. */
  missing(): number
  end(): Promise<void>
}

/**
 * Asks the store again and again, without holdfast, once the faults are over: servers that are starved lose their leader, and nobody can be
 * served meanwhile. What takes longer than half a second is recorded.
 */
export function watchStore(
  journal: Recorder,
  answers: (signal: AbortSignal) => Promise<unknown> = async () => undefined,
): StoreWatch {
  let over = false
  let missing = 0
  const ask = async () => {
    for (let before = performance.now(); !over; before = performance.now()) {
      const late = AbortSignal.timeout(prompt)
      const failed = await answers(late).then(
        () => false,
        () => true,
      )
      await new Promise((resolve) => setTimeout(resolve, look))
      const value = Math.round(performance.now() - before)
      if (!failed && value < prompt + look) continue
      missing += value
      journal.write({ op: 'fault', phase: 'info', kind: noAnswer, value })
    }
  }
  const asking = ask()
  return {
    missing: () => missing,
    end: () => {
      over = true
      return asking
    },
  }
}

interface Span {
  readonly from: number
  to: number
}

export interface Starvation {
  /** The history without it: nothing that the machine did counts as one of the lab's faults. */
  readonly history: History
  /** For how much of that time a process of the lab was starved, or the store did not answer, in ms. Times are those of the history. */
  within(from: number, to: number): number
}

export function findStarvation(whole: History): Starvation {
  const isIt = (event: Event) => event.op === 'fault' && (event.kind === kind || event.kind === noAnswer)
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
