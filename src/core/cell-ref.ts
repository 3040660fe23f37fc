/**
 * Compare-and-set loop over one cell, for the primitives: retries while the store is failing until the bounds end,
 * and decides anew on the present value after a conflict. A refusal that lasts ends it at once, as it ends an acquire.
 */

import { type Cell, type Cells, maxCellBytes } from './cell.js'
import type { Engine } from './engine.js'
import { BackendError, UnsupportedError } from './errors.js'
import { quote } from './name.js'
import { orAborted } from './or-aborted.js'
import type { Deadline } from './with-deadline.js'

/** The new content of the cell. `value` undefined: none. `keep` in ms. */
export interface CellUpdate {
  readonly value: string | undefined
  readonly keep: number
}

type Decide = (cell: Cell | undefined) => CellUpdate | undefined | Promise<CellUpdate | undefined>

/** Somebody else changed the cell between the read and the write. */
const conflict: unique symbol = Symbol('overtaken')

/** Pause between two tries while the store is failing, in ms. */
const pause = 200

export class CellRef {
  readonly engine: Engine
  readonly key: string
  readonly #cells: Cells

  /** @throws UnsupportedError when the driver has no cells */
  constructor(engine: Engine, what: string, name: string) {
    engine.assertOpen()
    const { driver } = engine
    if (driver.cells === undefined) {
      const remedy =
        'it needs a store that keeps small values beside the locks, such as memory, local or redis'
      throw new UnsupportedError(driver.name, `cells, so no ${what}`, remedy)
    }
    this.engine = engine
    this.key = `${what}:${name}`
    this.#cells = driver.cells
  }

  read(bounds: Deadline): Promise<Cell | undefined> {
    return this.retrying(bounds, () => this.#cells.read(this.key, bounds.signal))
  }

  /**
   * `decide` gets the present cell and returns its replacement, or undefined to leave it; it runs again after a
   * conflict. Resolves with the resulting cell. The change is carried out once, unless more than one change by others
   * came between a lost reply and the next try: where that matters, `decide` must recognise its own work.
   */
  async update(decide: Decide, bounds: Deadline): Promise<Cell | undefined> {
    const line = this.engine.cellUpdates
    const first = line.has(this.key) ? conflict : await this.#tryUpdate(decide, bounds)
    if (first !== conflict) return first
    const end = await line.acquire(this.key, bounds.signal)
    try {
      for (;;) {
        const outcome = await this.#tryUpdate(decide, bounds)
        if (outcome !== conflict) return outcome
      }
    } finally {
      end()
    }
  }

  async #tryUpdate(decide: Decide, bounds: Deadline): Promise<Cell | undefined | typeof conflict> {
    const cell = await this.read(bounds)
    const next = await decide(cell)
    if (next === undefined) return cell
    checkSize(this.key, next.value)
    const change = {
      ifVersion: cell?.version ?? 0,
      value: next.value,
      ttl: next.keep,
      id: this.engine.env.id(),
    }
    if (next.value === undefined && cell === undefined) return undefined
    const written = await this.retrying(bounds, () => this.#cells.write(this.key, change, bounds.signal))
    if (written === undefined) return conflict
    return next.value === undefined ? undefined : written
  }

  /**
   * Reads until `look` finds what it seeks; undefined: there was time for one read only. `every`: reads again after
   * this many ms even without a change, for conditions outside the cell.
   */
  async waitUntil<R>(
    look: (cell: Cell | undefined) => R | undefined | Promise<R | undefined>,
    bounds: Deadline,
    every: number = Number.POSITIVE_INFINITY,
  ): Promise<R | undefined> {
    for (;;) {
      const cell = await this.read(bounds)
      const found = await look(cell)
      if (found !== undefined || bounds.once) return found
      await this.#changed(cell?.version ?? 0, bounds, every)
    }
  }

  async #changed(version: number, bounds: Deadline, every: number): Promise<void> {
    if (every === Number.POSITIVE_INFINITY) {
      return this.retrying(bounds, () => this.#cells.changed(this.key, version, bounds.signal))
    }
    const { clock } = this.engine
    const controller = new AbortController()
    const enough = new Error('time to look again')
    const ended = () => controller.abort(bounds.signal.reason)
    bounds.signal.addEventListener('abort', ended)
    const stop = clock.at(clock.now() + every, () => controller.abort(enough))
    try {
      bounds.signal.throwIfAborted()
      const inner: Deadline = {
        signal: controller.signal,
        once: false,
        error: undefined,
        answered: true,
        patient: bounds.patient,
      }
      await this.retrying(inner, () => this.#cells.changed(this.key, version, controller.signal))
    } catch (error) {
      if (error !== enough) throw error
    } finally {
      stop()
      bounds.signal.removeEventListener('abort', ended)
    }
  }

  /** Sends the request until the store replies, refuses for good or the bounds end, even when the request ignores its bounds. */
  async retrying<T>(bounds: Deadline, ask: () => Promise<T>): Promise<T> {
    for (;;) {
      bounds.signal.throwIfAborted()
      try {
        const answer = await orAborted(ask(), bounds.signal)
        bounds.error = undefined
        bounds.answered = true
        return answer
      } catch (error) {
        if (!(error instanceof BackendError) || error.code === 'CLOSED') throw error
        if (!error.transient && !bounds.patient) throw error
        bounds.error = error
        await this.#sleep(bounds.signal)
      }
    }
  }

  #sleep(signal: AbortSignal): Promise<void> {
    const { clock, random } = this.engine
    return new Promise((resolve, reject) => {
      const stop = clock.at(clock.now() + pause * (0.5 + random()), () => {
        signal.removeEventListener('abort', ended)
        resolve()
      })
      const ended = () => {
        stop()
        reject(signal.reason)
      }
      if (signal.aborted) ended()
      else signal.addEventListener('abort', ended, { once: true })
    })
  }
}

function checkSize(key: string, value: string | undefined): void {
  if (value === undefined || Buffer.byteLength(value) <= maxCellBytes) return
  throw new RangeError(
    `what is to be kept as ${quote(key)} is ${Buffer.byteLength(value)} bytes long, the limit is ${maxCellBytes}; store it elsewhere and keep a reference here`,
  )
}
