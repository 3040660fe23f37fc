/** Carries out a plan of faults, each at its time, and undoes it. */
import type { Recorder } from 'holdfast/verify'
import { occupied, type Planned } from './plan.js'
import type { Fault } from './store.js'
import type { WorkerPool } from './workers.js'

export interface Nemesis {
  readonly journal: Recorder
  readonly ttl: number
  /** Duration of the faults in milliseconds. */
  readonly span: number
  /** Ends everything early. */
  readonly seen: (() => boolean) | undefined
}

/** No process has this id. */
const noWorker = 0

export async function nemesis(
  plan: readonly Planned[],
  faults: readonly Fault[],
  workerPool: WorkerPool,
  { journal, ttl, span, seen }: Nemesis,
): Promise<{ complaints: string[]; stopped: boolean; begun: number }> {
  const complaints: string[] = []
  const began = performance.now()
  let stopped = false
  const sleepUntil = async (at: number) => {
    // Short sleeps, to notice an early end.
    for (let left = at; !stopped && left > 0; left = began + at - performance.now()) {
      await pause(Math.min(100, Math.max(1, began + at - performance.now())))
    }
  }
  const busy = new Map<string, Promise<void>>()
  /** One fault at a time per subject, even if the one before takes longer than planned. */
  const inTurn = async (planned: Planned) => {
    const fault = faults.find((one) => one.kind === planned.kind)
    if (fault === undefined) return
    const subjects = occupied(fault, planned.subject)
    const turn = Promise.all(subjects.map((subject) => busy.get(subject))).then(() => inflict(fault, planned))
    for (const subject of subjects) busy.set(subject, turn)
    await turn
  }
  const note = (kind: string, value: number) => journal.write({ op: 'fault', phase: 'info', kind, value })
  const inflict = async (fault: Fault, { at, lasts, kind, subject, amount }: Planned) => {
    const [n = 0, m = 0] = [...subject.matchAll(/\d+/g)].map(Number)
    const target = fault.gentle ? noWorker : /^(?:worker|link)/.test(subject) ? workerPool.pid(n) : undefined
    const over = journal.fault(kind, target)
    try {
      const undo = await fault.begin({ subject, n, m, lasts, amount, ttl, workerPool, note })
      await sleepUntil(at + lasts)
      await undo?.()
    } catch (error) {
      complaints.push(`${kind} of ${subject} at ${at} ms could not be done: ${error}`)
    } finally {
      over()
    }
  }
  const watch = async () => {
    for (let at = 1_000; !stopped && at < span; at += 1_000) {
      await sleepUntil(at)
      if (seen?.() === true) stopped = true
    }
  }
  const under: Promise<void>[] = seen === undefined ? [] : [watch()]
  let begun = 0
  for (const planned of plan) {
    await sleepUntil(planned.at)
    if (stopped) break
    under.push(inTurn(planned))
    begun++
  }
  await Promise.all(under)
  return { complaints, stopped, begun }
}

export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
