/** Schedules under virtual time in separate processes, on processors that the rest of the soak leaves idle. */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'

/** What a process reports after every slice. */
export interface Slice {
  readonly kind: string
  readonly runs: number
  /** Milliseconds of processor time. */
  readonly took: number
  /** The smallest plan that breaks something, described for people. */
  readonly failure?: string
}

export interface Simulated {
  readonly schedules: Record<string, number>
  /** Seconds of processor time, of all processes. */
  readonly seconds: Record<string, number>
  readonly failures: string[]
  /** The first seed; each slice has its own. */
  readonly seed: number
  readonly processes: number
}

export interface RunningSchedules {
  /** Lets the current slices finish. */
  end(): Promise<Simulated>
}

/** @param seed of nine digits at most are used, which is what `npm run simulate -- --seed` takes */
export function playSchedules(processes: number, seed: number): RunningSchedules {
  const from = seed % 100_000_000
  const result: Simulated = { schedules: {}, seconds: {}, failures: [], seed: from, processes }
  let over = false
  const lanes = Array.from({ length: processes }, (_, n) => {
    const lane = fork(fileURLToPath(new URL('./schedule-runner.js', import.meta.url)), [
      `${from + n}`,
      `${processes}`,
    ])
    lane.on('message', (slice: Slice) => note(result, slice))
    lane.on('exit', (code, signal) => {
      if (!over || code !== 0)
        result.failures.push(`a process that played schedules ended: ${code ?? signal}`)
    })
    return lane
  })
  return {
    async end() {
      over = true
      await Promise.all(lanes.map(waitForExit))
      return result
    },
  }
}

async function waitForExit(lane: ChildProcess): Promise<void> {
  if (lane.exitCode !== null || lane.signalCode !== null) return
  const closed = once(lane, 'close')
  lane.send('end')
  await closed
}

function note({ schedules, seconds, failures }: Simulated, { kind, runs, took, failure }: Slice): void {
  schedules[kind] = (schedules[kind] ?? 0) + runs
  seconds[kind] = (seconds[kind] ?? 0) + took / 1000
  if (failure !== undefined) failures.push(failure)
}
