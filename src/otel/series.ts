/**
 * Sums by group of locks. They are plain numbers that a collection reads: a counter of the SDK costs a hash of its
 * attributes at every addition, more than an uncontended acquisition in memory.
 */
import type { Attributes } from './api.js'

/** How an acquisition ended. */
export const outcomes = ['granted', 'busy', 'timeout', 'aborted', 'failed'] as const
export type Outcome = (typeof outcomes)[number]
export const causes = ['expired', 'taken', 'revoked', 'max-hold'] as const
export type Cause = (typeof causes)[number]

/** More groups are counted together as `other`: a function that returns the name itself must not fill the memory. */
export const maxGroups = 200

/** What is attached to a measurement, made once for each combination. */
interface Labels {
  readonly wait: Readonly<Record<Outcome, Attributes>>
  readonly hold: Readonly<Record<'released' | 'lost' | 'exported' | 'unknown', Attributes>>
}

export class Series {
  readonly base: Attributes
  readonly labels: Labels
  readonly acquisitions: Record<Outcome, number> = { granted: 0, busy: 0, timeout: 0, aborted: 0, failed: 0 }
  readonly lost: Record<Cause, number> = { expired: 0, taken: 0, revoked: 0, 'max-hold': 0 }
  readonly handOffs: { local: number; remote: number } = { local: 0, remote: 0 }
  waiting = 0
  held = 0
  renewals = 0
  late = 0
  /** Leases that are doubtful now: name and token. */
  readonly doubtful: Set<string> = new Set()
  /** Positions in the store's queue, as last reported, by acquisition. */
  readonly positions: Map<number, number> = new Map()

  constructor(base: Attributes) {
    this.base = base
    const with_ = (key: string, value: string) => ({ ...base, [key]: value })
    const outcome = (value: Outcome) => with_('holdfast.outcome', value)
    const end = (value: string) => with_('holdfast.end', value)
    this.labels = {
      wait: {
        granted: outcome('granted'),
        busy: outcome('busy'),
        timeout: outcome('timeout'),
        aborted: outcome('aborted'),
        failed: outcome('failed'),
      },
      hold: {
        released: end('released'),
        lost: end('lost'),
        exported: end('exported'),
        unknown: end('unknown'),
      },
    }
  }
}

/** The series of one `Locks`, by group. */
export class SeriesMap {
  readonly #driver: string
  readonly #group: ((name: string) => string) | undefined
  /** All groups of the meter. */
  readonly #groups: Set<string>
  readonly #byGroup = new Map<string, Series>()
  /** Groups of recent names: the user's function is called once for most. */
  readonly #recent = new Map<string, Series>()
  readonly #only: Series | undefined

  constructor(driver: string, group: ((name: string) => string) | undefined, groups: Set<string>) {
    this.#driver = driver
    this.#group = group
    this.#groups = groups
    if (group === undefined) this.#only = this.#of(undefined)
  }

  get all(): Iterable<Series> {
    return this.#byGroup.values()
  }

  of(name: string): Series {
    if (this.#only !== undefined) return this.#only
    const known = this.#recent.get(name)
    if (known !== undefined) return known
    const series = this.#of(String(this.#group?.(name)))
    if (this.#recent.size >= 1_000) this.#recent.clear()
    this.#recent.set(name, series)
    return series
  }

  #of(group: string | undefined): Series {
    const known = this.#byGroup.get(group ?? '')
    if (known !== undefined) return known
    if (group !== undefined && group !== 'other' && !this.#groups.has(group)) {
      if (this.#groups.size >= maxGroups) return this.#of('other')
      this.#groups.add(group)
    }
    const series = new Series({
      'holdfast.driver': this.#driver,
      ...(group !== undefined && { 'holdfast.lock.group': group }),
    })
    this.#byGroup.set(group ?? '', series)
    return series
  }
}
