/**
 * Deterministic simulation: the real core under virtual time, seeded messages, faults and clocks.
 *
 *   npm run simulate                          300,000 schedules on two threads
 *   npm run simulate -- --schedules 1000000 --seed 5000000 --jobs 2
 *   npm run simulate -- --only 4711           one schedule, printed
 *
 * Schedule n is made from seed n. Ends with 1 on any violation, and prints the smallest scenario that still shows it.
 */
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { Worker } from 'node:worker_threads'
import { simulate } from './many.js'
import { scenarioOf } from './scenario.js'
import type { Report } from './thread.js'
import { told } from './told.js'

const { values } = parseArgs({
  options: {
    schedules: { type: 'string', default: '300000' },
    seed: { type: 'string', default: '1' },
    jobs: { type: 'string', default: '2' },
    only: { type: 'string' },
  },
})

function inThread(from: number, to: number): Promise<Report> {
  const file = fileURLToPath(new URL('./thread.js', import.meta.url))
  return new Promise((resolve, reject) => {
    const worker = new Worker(file, { workerData: { from, to } })
    worker.once('message', resolve)
    worker.once('error', reject)
  })
}

async function main(): Promise<void> {
  if (values.only !== undefined) {
    const outcome = await simulate(scenarioOf(Number(values.only)))
    console.log(told(outcome))
    return
  }
  const began = performance.now()
  const [schedules, seed, jobs] = [Number(values.schedules), Number(values.seed), Number(values.jobs)]
  const share = Math.ceil(schedules / jobs)
  const reports = await Promise.all(
    Array.from({ length: jobs }, (_, i) =>
      inThread(seed + i * share, seed + Math.min(schedules, (i + 1) * share)),
    ),
  )
  const sum = (what: 'schedules' | 'steps' | 'acquisitions') =>
    reports.reduce((total, one) => total + one[what], 0)
  const failures = reports.flatMap((one) => one.failures)
  for (const failure of failures) console.log(failure)
  const seconds = (performance.now() - began) / 1000
  const rate = Math.round(sum('schedules') / seconds)
  console.log(
    `${sum('schedules').toLocaleString('en')} schedules, ${sum('steps').toLocaleString('en')} steps, ${sum('acquisitions').toLocaleString('en')} acquisitions, ${seconds.toFixed(0)} s (${rate} a second), ${failures.length} went wrong`,
  )
  if (failures.length > 0) process.exitCode = 1
}

main().catch((error: unknown) => {
  console.error(`simulate: ${error instanceof Error ? error.message : error}`)
  process.exitCode = 1
})
