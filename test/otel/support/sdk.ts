// The real SDK with exporters that keep what they get in memory.
import * as api from '@opentelemetry/api'
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks'
import {
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from '@opentelemetry/sdk-metrics'
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-base'

type Value =
  | number
  | {
      readonly count: number
      readonly sum?: number | undefined
      readonly buckets: { readonly boundaries: number[] }
    }

export interface Point {
  readonly attributes: Readonly<Record<string, unknown>>
  readonly value: Value
}

export interface Sdk extends AsyncDisposable {
  readonly api: typeof api
  readonly spans: InMemorySpanExporter
  /** Every metric with its points, as collected now. */
  collect(): Promise<ReadonlyMap<string, readonly Point[]>>
}

/** Makes itself the global SDK of this process, until it is disposed. */
export function startSdk(): Sdk {
  const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE)
  const reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 3_600_000 })
  const meters = new MeterProvider({ readers: [reader] })
  const spans = new InMemorySpanExporter()
  const tracers = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(spans)] })
  api.metrics.setGlobalMeterProvider(meters)
  api.trace.setGlobalTracerProvider(tracers)
  api.context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable())
  return {
    api,
    spans,
    async collect() {
      exporter.reset()
      await meters.forceFlush()
      const found = new Map<string, readonly Point[]>()
      for (const { scopeMetrics } of exporter.getMetrics())
        for (const { metrics } of scopeMetrics)
          for (const { descriptor, dataPoints } of metrics)
            found.set(
              descriptor.name,
              dataPoints.map(({ attributes, value }) => ({ attributes, value: value as Value })),
            )
      return found
    },
    async [Symbol.asyncDispose]() {
      await meters.shutdown()
      await tracers.shutdown()
      api.metrics.disable()
      api.trace.disable()
      api.context.disable()
    },
  }
}

/** The value of the one point with these attributes; undefined: there is none. */
export function pointOf(
  metrics: ReadonlyMap<string, readonly Point[]>,
  name: string,
  attributes: Readonly<Record<string, unknown>> = {},
): number | undefined {
  const points = (metrics.get(name) ?? []).filter((point) =>
    Object.entries(attributes).every(([key, value]) => point.attributes[key] === value),
  )
  if (points.length > 1)
    throw new Error(`${points.length} points of ${name} fit ${JSON.stringify(attributes)}`)
  const value = points[0]?.value
  return typeof value === 'object' ? value.count : value
}
