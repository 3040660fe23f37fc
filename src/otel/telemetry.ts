import type { Locks } from 'holdfast'
import type { OpenTelemetry } from './api.js'
import { Counted } from './counted.js'
import { holdBuckets, Meters, waitBuckets } from './meters.js'
import { Spans } from './spans.js'

export interface TelemetryOptions {
  /**
   * The group of a lock, which becomes the attribute `holdfast.lock.group`: `(name) => name.split(':')[0]`. It should
   * have few values; beyond 200 the metrics count further groups as `other`. Without it no attribute tells locks
   * apart.
   */
  readonly group?: (name: string) => string
  /** Report metrics. @default true */
  readonly metrics?: boolean
  /** Report spans. They cost several times as much as the metrics where they are sampled. @default true */
  readonly spans?: boolean
  /** Put the name of the lock into spans, as `holdfast.lock.name`. Never into metrics. @default false */
  readonly names?: boolean
  /** Upper bounds of the histograms, in seconds. */
  readonly buckets?: { readonly wait?: readonly number[]; readonly hold?: readonly number[] }
}

export interface Telemetry {
  /**
   * Reports what happens on `locks` from now on; several may be observed. Returns a function that ends it: counters
   * keep their values, and what is held and waited for counts as 0.
   */
  observe(locks: Pick<Locks, 'on' | 'driver'>): () => void
  /** Ends every observation and removes the instruments' callbacks. */
  stop(): void
}

const known = ['group', 'metrics', 'spans', 'names', 'buckets']

/**
 * Metrics and spans of locks over OpenTelemetry. Register the SDK's providers first: meter and tracer are asked for
 * here.
 *
 * ```ts
 * import * as api from '@opentelemetry/api'
 * import { createLocks } from 'holdfast'
 * import { memory } from 'holdfast/memory'
 * import { telemetry } from 'holdfast/otel'
 *
 * const locks = createLocks(memory())
 * const { observe } = telemetry(api, { group: (name) => name.split(':')[0] ?? name })
 * observe(locks)
 * ```
 * @param api the module `@opentelemetry/api` itself, 1.7 or newer
 * @throws TypeError for what is not that module, and for unknown options
 */
export function telemetry(api: OpenTelemetry, options: TelemetryOptions = {}): Telemetry {
  check(api, options)
  const { group, metrics = true, spans = true, names = false, buckets = {} } = options
  const { wait = waitBuckets, hold = holdBuckets } = buckets
  const meters = metrics ? new Meters(api.metrics.getMeter('holdfast'), { wait, hold }) : undefined
  const tracer = spans ? api.trace.getTracer('holdfast') : undefined
  const stops = new Set<() => void>()
  return {
    observe(locks) {
      const counted = meters && new Counted(locks, meters, group)
      if (counted !== undefined) meters?.add(counted)
      const spanned = tracer && new Spans(locks, tracer, api.context, { group, names })
      const stop = () => {
        if (!stops.delete(stop)) return
        counted?.stop()
        if (counted !== undefined) meters?.remove(counted)
        spanned?.stop()
      }
      stops.add(stop)
      return stop
    },
    stop() {
      for (const stop of stops) stop()
      meters?.close()
    },
  }
}

function check(api: unknown, options: TelemetryOptions): void {
  const { metrics, trace, context } = (api ?? {}) as Partial<Record<string, object>>
  if (metrics === undefined || trace === undefined || context === undefined)
    throw new TypeError("telemetry takes the module itself: import * as api from '@opentelemetry/api'")
  for (const key of Object.keys(options))
    if (!known.includes(key))
      throw new TypeError(`telemetry(): unknown option '${key}'; known are ${known.join(', ')}`)
  const { group, metrics: wantsMetrics, spans, names, buckets } = options
  if (group !== undefined && typeof group !== 'function')
    throw new TypeError(`group must be a function from a name to its group, got ${JSON.stringify(group)}`)
  for (const [name, value] of Object.entries({ metrics: wantsMetrics, spans, names }))
    if (value !== undefined && typeof value !== 'boolean')
      throw new TypeError(`${name} must be true or false, got ${JSON.stringify(value)}`)
  checkBuckets(buckets)
}

function checkBuckets(buckets: unknown): void {
  if (buckets === undefined) return
  if (typeof buckets !== 'object' || buckets === null)
    throw new TypeError(`buckets must be { wait, hold }, got ${JSON.stringify(buckets)}`)
  for (const [name, bounds] of Object.entries(buckets)) {
    if (name !== 'wait' && name !== 'hold')
      throw new TypeError(`buckets: unknown option '${name}'; known are wait, hold`)
    const grow =
      Array.isArray(bounds) &&
      bounds.every((bound, at) => Number.isFinite(bound) && (at === 0 || bound > bounds[at - 1]))
    if (bounds !== undefined && !grow)
      throw new TypeError(`buckets.${name} must be growing numbers of seconds, got ${JSON.stringify(bounds)}`)
  }
}
