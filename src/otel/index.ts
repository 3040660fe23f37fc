/**
 * OpenTelemetry for locks: what is held and waited for, how long, what was lost and why, and a span for every
 * acquisition and hold. See docs/telemetry.md.
 *
 * ```ts
 * import * as api from '@opentelemetry/api'
 * import { createLocks } from 'holdfast'
 * import { local } from 'holdfast/local'
 * import { telemetry } from 'holdfast/otel'
 *
 * telemetry(api).observe(createLocks(local()))
 * ```
 * @module
 */
export type {
  Attributes,
  Context,
  Histogram,
  Meter,
  MetricOptions,
  Observable,
  ObservableResult,
  OpenTelemetry,
  Span,
  SpanContext,
  SpanOptions,
  Tracer,
} from './api.js'
export { type Telemetry, type TelemetryOptions, telemetry } from './telemetry.js'
