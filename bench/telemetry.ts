// What telemetry adds to an acquisition and its release, in memory, beside the same locks without it, and beside the least that its two
// histograms can cost: the same locks without telemetry, and two bare records of the SDK with as many attributes for each acquisition.
//
//   node build/bench/telemetry.js
import * as api from '@opentelemetry/api'
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks'
import {
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from '@opentelemetry/sdk-metrics'
import { AlwaysOffSampler, BasicTracerProvider } from '@opentelemetry/sdk-trace-base'
import { createLocks, type Locks } from 'holdfast'
import { memory } from 'holdfast/memory'
import { telemetry } from 'holdfast/otel'
import { spread } from './spread.js'

const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE)
const reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 3_600_000 })
const meters = new MeterProvider({ readers: [reader] })
api.metrics.setGlobalMeterProvider(meters)
api.context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable())

const group = (name: string) => name.split(':')[0] ?? name
const withTracer = (provider: BasicTracerProvider) => ({
  ...{ metrics: api.metrics, context: api.context },
  trace: { getTracer: (name: string) => provider.getTracer(name) },
})
const recorded = new BasicTracerProvider()
const unsampled = new BasicTracerProvider({ sampler: new AlwaysOffSampler() })

const variants = {
  off: undefined,
  metrics: telemetry(api, { group, spans: false }),
  // Without the SDK: the events and the sums alone.
  sums: telemetry(
    { ...withTracer(unsampled), metrics: { getMeter: api.createNoopMeter } },
    { group, spans: false },
  ),
  unsampled: telemetry(withTracer(unsampled), { group, metrics: false }),
  recorded: telemetry(withTracer(recorded), { group, metrics: false }),
}
type Variant = keyof typeof variants | 'floor'

const pairs =
  (locks: Locks, also = () => {}) =>
  async (n: number) => {
    const lock = locks.mutex('account:1')
    for (let i = 0; i < n; i++) {
      await (await lock.acquire()).release()
      also()
    }
  }

/** What an acquisition and its release record, made once as in `src/otel/series.ts`. */
function twoRecords(): () => void {
  const meter = meters.getMeter('floor')
  const advice = { explicitBucketBoundaries: Array.from({ length: 17 }, (_, i) => 0.000_1 * 2 ** i) }
  const [wait, hold] = [meter.createHistogram('wait', { advice }), meter.createHistogram('hold', { advice })]
  const base = { 'holdfast.driver': 'memory', 'holdfast.lock.group': 'account' }
  const [granted, released] = [
    { ...base, 'holdfast.outcome': 'granted' },
    { ...base, 'holdfast.end': 'released' },
  ]
  return () => {
    wait.record(0.000_01, granted)
    hold.record(0.000_01, released)
  }
}
const all: Locks[] = []
const opened = (): Locks => {
  const locks = createLocks(memory(), { leakWarning: false })
  all.push(locks)
  return locks
}
const works = Object.fromEntries([
  ...Object.entries(variants).map(([name, observed]) => {
    const locks = opened()
    observed?.observe(locks)
    return [name, pairs(locks)]
  }),
  ['floor', pairs(opened(), twoRecords())],
]) as Record<Variant, (n: number) => Promise<void>>

/** Processor time of this process: what else runs on the machine counts little. */
async function cost(name: Variant, n: number): Promise<number> {
  const before = process.cpuUsage()
  await works[name](n)
  const { user, system } = process.cpuUsage(before)
  return (user + system) / n
}

const names = Object.keys(works) as Variant[]
for (const name of names) await cost(name, 20_000)
const rounds = Array.from({ length: 31 }, () => new Map<Variant, number>())
for (const round of rounds) for (const name of names) round.set(name, await cost(name, 10_000))
const median = (of: (round: ReadonlyMap<Variant, number>) => number) =>
  spread(rounds.map(of)).median.toFixed(2)
console.log(
  `without telemetry ${median((round) => round.get('off') ?? 0)} µs of processor time for acquire + release`,
)
for (const name of ['sums', 'floor', 'metrics', 'unsampled', 'recorded'] as const)
  console.log(
    `${name} adds ${median((round) => (round.get(name) ?? 0) - (round.get('off') ?? 0))} µs (median of 31 rounds)`,
  )
await Promise.all(all.map((locks) => locks.close()))
await Promise.all([meters.shutdown(), recorded.shutdown(), unsampled.shutdown()])
