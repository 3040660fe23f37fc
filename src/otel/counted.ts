/** Turns the events of one `Locks` into sums. */
import type { LockEvents, Locks } from 'holdfast'
import type { Durations, Meters } from './meters.js'
import { type Series, SeriesMap } from './series.js'

export class Counted {
  readonly driver: string
  readonly series: SeriesMap
  /** By operation and code. */
  readonly errors: Map<string, number> = new Map()
  quarantined = false
  readonly #durations: Durations
  readonly #off: (() => void)[]

  constructor(
    locks: Pick<Locks, 'on' | 'driver'>,
    { durations, groups }: Pick<Meters, 'durations' | 'groups'>,
    group?: (name: string) => string,
  ) {
    this.driver = locks.driver.name
    this.series = new SeriesMap(this.driver, group, groups)
    this.#durations = durations
    this.#off = [
      locks.on('requested', ({ name }) => void this.series.of(name).waiting++),
      locks.on('waiting', (event) => this.#waiting(event)),
      locks.on('granted', (event) => this.#granted(event)),
      locks.on('denied', (event) => this.#denied(event)),
      locks.on('renewed', (event) => this.#renewed(event)),
      locks.on('doubtful', (event) => this.#doubtful(event)),
      locks.on('lost', (event) => this.#lost(event)),
      locks.on('released', (event) => this.#released(event)),
      locks.on('storeError', (event) => this.#storeError(event)),
    ]
  }

  /** What was counted stays; what is held or waited for is no longer known. */
  stop(): void {
    for (const off of this.#off) off()
    this.quarantined = false
    for (const one of this.series.all) {
      one.waiting = 0
      one.held = 0
      one.doubtful.clear()
      one.positions.clear()
    }
  }

  #waiting({ name, acquisition, blocked }: LockEvents['waiting']): void {
    if (blocked.error !== undefined) return
    this.quarantined = false
    this.series.of(name).positions.set(acquisition, blocked.position ?? 1)
  }

  #granted({ name, acquisition, waited, handedOff }: LockEvents['granted']): void {
    const series = this.series.of(name)
    // A lease adopted from another process was not requested here.
    if (acquisition !== 0 && series.waiting > 0) series.waiting--
    series.held++
    series.acquisitions.granted++
    if (handedOff) series.handOffs.local++
    else {
      this.quarantined = false
      if (series.positions.size > 0 && series.positions.has(acquisition)) series.handOffs.remote++
    }
    if (series.positions.size > 0) series.positions.delete(acquisition)
    this.#durations.wait.record(waited / 1_000, series.labels.wait.granted)
  }

  #denied({ name, acquisition, waited, why }: LockEvents['denied']): void {
    const series = this.series.of(name)
    if (series.waiting > 0) series.waiting--
    series.acquisitions[why]++
    series.positions.delete(acquisition)
    this.#durations.wait.record(waited / 1_000, series.labels.wait[why])
  }

  #renewed({ name, token }: LockEvents['renewed']): void {
    const series = this.series.of(name)
    series.renewals++
    if (series.doubtful.size > 0) series.doubtful.delete(toKey(name, token))
  }

  #doubtful({ name, token }: LockEvents['doubtful']): void {
    const series = this.series.of(name)
    series.late++
    series.doubtful.add(toKey(name, token))
  }

  #lost({ name, token, held, why }: LockEvents['lost']): void {
    const series = this.series.of(name)
    series.lost[why]++
    this.#ended(series, name, token)
    this.#durations.hold.record(held / 1_000, series.labels.hold.lost)
  }

  #released({ name, token, held, outcome }: LockEvents['released']): void {
    const series = this.series.of(name)
    const end = outcome === 'already-released' ? 'released' : outcome
    // The store had given the lock away, and this process learned it only from the reply to its release.
    if (end === 'lost') series.lost.taken++
    this.#ended(series, name, token)
    this.#durations.hold.record(held / 1_000, series.labels.hold[end])
  }

  #ended(series: Series, name: string, token: number): void {
    // A lease that was granted before the observation began was not counted.
    if (series.held > 0) series.held--
    if (series.doubtful.size > 0) series.doubtful.delete(toKey(name, token))
  }

  #storeError({ operation, code, quarantined }: LockEvents['storeError']): void {
    const key = `${operation} ${quarantined ? 'QUARANTINE' : code}`
    this.errors.set(key, (this.errors.get(key) ?? 0) + 1)
    if (quarantined) this.quarantined = true
  }
}

const toKey = (name: string, token: number) => `${token} ${name}`
