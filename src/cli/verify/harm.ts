/** Faults of our own processes, one at a time, each undone. */
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import type { Recorder } from 'holdfast/verify'
import type { RunClient } from './run-client.js'
import type { Order } from './worker.js'

/** The commands must end, or continue under a lease, whatever happens to the `holdfast run` that started them. */
export async function harmRun(run: RunClient, journal: Recorder, ttl: number): Promise<string> {
  const kind = Math.random() < 0.5 ? 'kill' : 'pause'
  const over = journal.fault(kind, run.pid())
  run.signal(kind === 'kill' ? 'SIGKILL' : 'SIGSTOP')
  if (kind === 'pause') await pause(ttl * (0.1 + 1.9 * Math.random()))
  run.signal('SIGCONT')
  over()
  return `${kind} of holdfast run`
}

/** Does one thing to one worker, then undoes it. */
export async function harmWorker(
  workers: ChildProcess[],
  journal: Recorder,
  start: () => ChildProcess,
  ttl: number,
): Promise<string> {
  const n = Math.floor(Math.random() * workers.length)
  const worker = workers[n] as ChildProcess
  const lasts = ttl * (0.1 + 1.9 * Math.random())
  const way = Math.floor(Math.random() * 4)
  const kind = (['kill', 'pause', 'block', 'cut'] as const)[way] ?? 'pause'
  const over = journal.fault(kind, worker.pid)
  if (kind === 'kill') {
    const gone = worker.exitCode === null && worker.signalCode === null ? once(worker, 'exit') : undefined
    worker.kill('SIGKILL')
    await gone
    workers[n] = start()
  } else if (kind === 'pause') {
    worker.kill('SIGSTOP')
    await pause(lasts)
    worker.kill('SIGCONT')
  } else {
    send(worker, kind === 'block' ? { do: 'block', ms: lasts } : { do: 'cut' })
    await pause(lasts)
    if (kind === 'cut') send(worker, { do: 'heal' })
  }
  over()
  return kind
}

export function send(worker: ChildProcess, order: Order): void {
  if (worker.connected) worker.send(order, () => undefined)
}

export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
