/** As much of `@opentelemetry/api` as is used here, by its shape: nothing of it is loaded, and any 1.x from 1.7 fits. */

export type Attributes = Record<string, string | number | boolean>

/** Opaque. */
export type Context = object

export interface MetricOptions {
  description?: string
  unit?: string
  advice?: { explicitBucketBoundaries?: number[] }
}

export interface Histogram {
  record(value: number, attributes?: Attributes): void
}

export interface ObservableResult {
  observe(value: number, attributes?: Attributes): void
}

export interface Observable {
  addCallback(callback: (result: ObservableResult) => void): void
  removeCallback(callback: (result: ObservableResult) => void): void
}

export interface Meter {
  createHistogram(name: string, options?: MetricOptions): Histogram
  createObservableCounter(name: string, options?: MetricOptions): Observable
  createObservableUpDownCounter(name: string, options?: MetricOptions): Observable
  createObservableGauge(name: string, options?: MetricOptions): Observable
}

export interface SpanContext {
  traceId: string
  spanId: string
  traceFlags: number
}

export interface Span {
  spanContext(): SpanContext
  setAttribute(key: string, value: string | number | boolean): unknown
  addEvent(name: string, attributes?: Attributes): unknown
  setStatus(status: { code: number; message?: string }): unknown
  isRecording(): boolean
  end(): void
}

export interface SpanOptions {
  attributes?: Attributes
  links?: { context: SpanContext; attributes?: Attributes }[]
}

export interface Tracer {
  startSpan(name: string, options?: SpanOptions, context?: never): Span
}

/** What `import * as api from '@opentelemetry/api'` gives. */
export interface OpenTelemetry {
  readonly metrics: { getMeter(name: string, version?: string): Meter }
  readonly trace: { getTracer(name: string, version?: string): Tracer }
  readonly context: { active(): Context }
}
