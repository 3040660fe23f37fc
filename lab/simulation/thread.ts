/** Simulates a range of seeds in a thread of its own. */
import { parentPort, workerData } from 'node:worker_threads'
import { shrunk, simulateMany } from './many.js'
import { told } from './told.js'

export interface Report {
  readonly schedules: number
  readonly steps: number
  readonly acquisitions: number
  /** What went wrong, each as its smallest scenario. */
  readonly failures: readonly string[]
}

// Half of the time would go into stacks of errors that are expected.
Error.stackTraceLimit = 0

const { from, to } = workerData as { from: number; to: number }
const { schedules, steps, acquisitions, failed } = await simulateMany(from, to)
const failures: string[] = []
for (const outcome of failed) failures.push(told(await shrunk(outcome)))
parentPort?.postMessage({ schedules, steps, acquisitions, failures } satisfies Report)
