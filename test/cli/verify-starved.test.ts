// `holdfast verify` on a machine that gives its processes no processor: their waits are late, and nothing is wrong with the locks.
import '../support/background.js'
import assert from 'node:assert/strict'
import { availableParallelism } from 'node:os'
import { after, test } from 'node:test'
import { Worker } from 'node:worker_threads'
import { createHistory, findStarvation, memoryRecorder, watchStarvation } from 'holdfast/verify'
import { judge } from '../../src/cli/verify/judge.js'
import { leakCheck } from '../support/leaks.js'
import { event, held } from '../verify/bugs.js'

const ttl = 1_000

/** A command of `holdfast run` begins 18 s after the run was started; 14 s are allowed. */
function judged(...starved: readonly [until: number, ms: number][]): {
  violations: string[]
  waits: number
  ms: number
} {
  const machine = starved.map(([at, value]) =>
    event(at, 'm', 'm:1', { op: 'fault', phase: 'info', kind: 'starved by the machine', value }),
  )
  const run = held('run', 'run:1', [1_000, 19_000, 19_100], { token: 7, wait: 40_000 })
  const { violations, starved: found } = judge(createHistory([...run, ...machine]), ttl)
  return { violations: violations.map(({ rule }) => rule), waits: found.waits.length, ms: found.ms }
}

test('a wait that is late because processes got no processor is reported as that, and is no violation', () => {
  assert.deepEqual(judged([5_000, 3_000], [12_000, 1_500]), { violations: [], waits: 1, ms: 4_500 })
})

test('a late wait is a violation if the processes had processors, or lacked them before or after it, or for too short a time', () => {
  assert.deepEqual(judged(), { violations: ['liveness'], waits: 0, ms: 0 })
  assert.deepEqual(judged([5_000, 3_000], [12_000, 900]).violations, ['liveness'])
  assert.deepEqual(judged([5_000, 3_000], [5_100, 3_000]).violations, ['liveness'], 'the same time, of two')
  assert.deepEqual(judged([900, 900], [19_500, 400], [40_000, 9_000]).violations, ['liveness'])
})

test('a wait that never ends is a violation, however starved the processes were', () => {
  const [invoked] = held('run', 'run:1', [1_000, 2_000, 2_001])
  const machine = [5_000, 10_000, 15_000, 20_000].map((at) =>
    event(at, 'm', 'm:1', { op: 'fault', phase: 'info', kind: 'starved by the machine', value: 5_000 }),
  )
  const { violations } = judge(createHistory([...(invoked ? [invoked] : []), ...machine]), ttl)
  assert.deepEqual(
    violations.map(({ rule }) => rule),
    ['liveness'],
  )
})

test('a process that shares the processors with too many others records for how long it had none', {
  skip: process.platform !== 'linux' && 'only Linux tells',
}, async () => {
  const over = new Int32Array(new SharedArrayBuffer(4))
  const busy =
    'const { workerData: over } = require("node:worker_threads"); while (Atomics.load(over, 0) === 0);'
  const journal = memoryRecorder()
  const found = () => {
    const history = journal.history()
    return findStarvation(history).within(0, history.end)
  }
  const others = Array.from(
    { length: 3 * availableParallelism() },
    () => new Worker(busy, { eval: true, workerData: over }),
  )
  const unwatch = watchStarvation(journal)
  try {
    const ends = performance.now() + 60_000
    // It wants a processor all the time.
    while (found() === 0 && performance.now() < ends) await new Promise(setImmediate)
    assert.ok(found() >= 125, `${found()} ms`)
  } finally {
    unwatch()
    Atomics.store(over, 0, 1)
    await Promise.all(others.map((one) => new Promise((resolve) => one.once('exit', resolve))))
    journal.close()
  }
})

after(leakCheck)
