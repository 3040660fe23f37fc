/** The instruments of one meter. Counters and gauges report the sums of {@link Counted}; durations are recorded. */
import type { Attributes, Histogram, Meter, Observable, ObservableResult } from './api.js'
import type { Counted } from './counted.js'
import { type Instrument, instruments, type Kind } from './instruments.js'

/** In seconds. A hand-over inside the process takes microseconds, a wait for a store up to minutes. */
export const waitBuckets: readonly number[] = [
  0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60,
]
/** In seconds. */
export const holdBuckets: readonly number[] = [
  0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600,
]

export interface Durations {
  readonly wait: Histogram
  readonly hold: Histogram
}

/** Everything that is observed through one meter. */
export class Meters {
  readonly durations: Durations
  /** The groups that have attributes of their own, of all observations together. */
  readonly groups: Set<string> = new Set()
  readonly #observed = new Set<Counted>()
  /** What observations that have ended had counted, by instrument. */
  readonly #ended = new Map<Instrument, Sums>()
  readonly #off: (() => void)[]

  constructor(meter: Meter, buckets: { readonly wait: readonly number[]; readonly hold: readonly number[] }) {
    const histogram = (name: string, description: string, bounds: readonly number[]) =>
      meter.createHistogram(name, {
        description,
        unit: 's',
        advice: { explicitBucketBoundaries: [...bounds] },
      })
    this.durations = {
      wait: histogram(
        'holdfast.wait.duration',
        'Time from the call to its end, by holdfast.outcome',
        buckets.wait,
      ),
      hold: histogram(
        'holdfast.hold.duration',
        'Time from the grant to its end, by holdfast.end',
        buckets.hold,
      ),
    }
    this.#off = instruments.map((one) => this.#register(meter, one))
  }

  add(counted: Counted): void {
    this.#observed.add(counted)
  }

  /** Keeps the counts, and forgets the rest. Call it once nothing is counted as held or waited for any more. */
  remove(counted: Counted): void {
    if (!this.#observed.delete(counted)) return
    for (const one of instruments) {
      const sums = this.#ended.get(one) ?? new Sums(one.kind === 'gauge')
      one.report(sums, counted)
      this.#ended.set(one, sums)
    }
  }

  close(): void {
    for (const off of this.#off) off()
  }

  #register(meter: Meter, instrument: Instrument): () => void {
    const { name, kind, unit, description, report } = instrument
    const observable = created(meter, kind, name, { unit, description })
    const callback = (result: ObservableResult) => {
      const sums = new Sums(kind === 'gauge')
      this.#ended.get(instrument)?.pass(sums)
      for (const counted of this.#observed) report(sums, counted)
      sums.pass(result)
    }
    observable.addCallback(callback)
    return () => observable.removeCallback(callback)
  }
}

function created(
  meter: Meter,
  kind: Kind,
  name: string,
  options: { unit: string; description: string },
): Observable {
  if (kind === 'counter') return meter.createObservableCounter(name, options)
  if (kind === 'upDown') return meter.createObservableUpDownCounter(name, options)
  return meter.createObservableGauge(name, options)
}

/** Several `Locks` over one driver have the same attributes: an SDK keeps the last observation, so they are added here. */
class Sums implements ObservableResult {
  readonly #greatest: boolean
  readonly #values = new Map<string, { value: number; attributes: Attributes }>()

  constructor(greatest: boolean) {
    this.#greatest = greatest
  }

  observe(value: number, attributes: Attributes = {}): void {
    const key = JSON.stringify(attributes)
    const known = this.#values.get(key)
    if (known === undefined) this.#values.set(key, { value, attributes })
    else known.value = this.#greatest ? Math.max(known.value, value) : known.value + value
  }

  pass(result: ObservableResult): void {
    for (const { value, attributes } of this.#values.values()) result.observe(value, attributes)
  }
}
