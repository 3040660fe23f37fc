// What telemetry adds to an acquisition and its release, in memory, beside the same locks without it.
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
type Variant = keyof typeof variants

const pairs = (locks: Locks) => async (n: number) => {
  const lock = locks.mutex('account:1')
  for (let i = 0; i < n; i++) await (await lock.acquire()).release()
}
const all: Locks[] = []
const works = Object.fromEntries(
  Object.entries(variants).map(([name, observed]) => {
    const locks = createLocks(memory(), { leakWarning: false })
    all.push(locks)
    observed?.observe(locks)
    return [name, pairs(locks)]
  }),
) as Record<Variant, (n: number) => Promise<void>>

/** Processor time of this process: what else runs on the machine counts little. */
async function cost(name: Variant, n: number): Promise<number> {
  const before = process.cpuUsage()
  await works[name](n)
  const { user, system } = process.cpuUsage(before)
  return (user + system) / n
}

const names = Object.keys(variants) as Variant[]
for (const name of names) await cost(name, 20_000)
const rounds = Array.from({ length: 15 }, () => new Map<Variant, number>())
for (const round of rounds) for (const name of names) round.set(name, await cost(name, 10_000))
const median = (of: (round: ReadonlyMap<Variant, number>) => number) =>
  spread(rounds.map(of)).median.toFixed(2)
console.log(
  `without telemetry ${median((round) => round.get('off') ?? 0)} µs of processor time for acquire + release`,
)
for (const name of ['sums', 'metrics', 'unsampled', 'recorded'] as const)
  console.log(
    `${name} adds ${median((round) => (round.get(name) ?? 0) - (round.get('off') ?? 0))} µs (median of 15 rounds)`,
  )
await Promise.all(all.map((locks) => locks.close()))
await Promise.all([meters.shutdown(), recorded.shutdown(), unsampled.shutdown()])
