/** The loop of `top`: one list at a time, keys in between. */
import type { LockStatus } from 'holdfast'
import { plain } from '../print.js'
import { draw, mostScroll, pageSize, type View } from './draw.js'
import { chosen, Rates, type Row, type Sort } from './model.js'
import { initial, type Key, press, type State } from './state.js'
import { openTerminal } from './terminal.js'

export interface Source {
  /** As shown to people. */
  readonly store: string
  /** Time from one list to the next, in ms. */
  readonly every: number
  readonly sort: Sort
  /** The list with which the view begins. */
  readonly first: readonly LockStatus[]
  readonly list: () => Promise<readonly LockStatus[]>
  /** Undefined: others hold it now. @param seen the attempts of the holders it is meant for */
  readonly force: (name: string, seen: readonly string[]) => Promise<number | undefined>
}

/** A list that takes long is repeated less often: the store spends at most a tenth of its time on it. */
export function pauseAfter(took: number, every: number): number {
  return Math.max(every, 9 * took)
}

/** A store that does not answer is asked again within half a minute, however long its silence was waited for. */
export function pauseAfterFailure(took: number, every: number): number {
  return Math.max(every, Math.min(30_000, pauseAfter(took, every)))
}

/** Resolves when the user quits, or with the signal that ended it. */
export function live(source: Source): Promise<NodeJS.Signals | undefined> {
  return new Promise((resolve) => {
    new Live(source, resolve)
  })
}

interface Chosen {
  readonly all: readonly Row[]
  readonly filter: string
  readonly sort: Sort
  readonly rows: readonly Row[]
}

class Live {
  readonly #source: Source
  readonly #done: (signal?: NodeJS.Signals) => void
  readonly #terminal: ReturnType<typeof openTerminal>
  readonly #rates = new Rates()
  #state: State
  #all: readonly Row[]
  #chosen: Chosen = { all: [], filter: '', sort: 'name', rows: [] }
  #took: number | undefined
  /** When the newest list came, in monotonic ms. */
  #at = performance.now()
  #error: string | undefined
  #timer: NodeJS.Timeout | undefined
  #listing = false
  #over = false

  constructor(source: Source, done: (signal?: NodeJS.Signals) => void) {
    this.#source = source
    this.#done = done
    this.#state = { ...initial, sort: source.sort }
    this.#all = this.#rates.rows(source.first, this.#at)
    this.#terminal = openTerminal(process.stdin, process.stdout, {
      key: (key) => this.#key(key),
      resized: () => this.#draw(),
      ended: (signal) => this.#end(signal),
    })
    this.#draw()
    this.#plan(source.every)
  }

  /** Never rejects: what is wrong is shown. */
  async #list(): Promise<void> {
    if (this.#listing || this.#over) return
    this.#listing = true
    clearTimeout(this.#timer)
    const began = performance.now()
    try {
      const list = await this.#source.list()
      this.#at = performance.now()
      this.#took = this.#at - began
      this.#all = this.#rates.rows(list, this.#at)
      this.#error = undefined
    } catch (error) {
      this.#error = error instanceof Error ? error.message : String(error)
    }
    this.#listing = false
    this.#draw()
    const pause = this.#error === undefined ? pauseAfter : pauseAfterFailure
    this.#plan(pause(performance.now() - began, this.#source.every))
  }

  #plan(pause: number): void {
    if (this.#over) return
    this.#timer = setTimeout(() => (this.#state.paused ? this.#plan(pause) : void this.#list()), pause)
  }

  /** Sorted anew only when something changed: of 5,000 names that takes longer than all the rest of a key. */
  get #rows(): readonly Row[] {
    const { filter, sort } = this.#state
    const { all, ...kept } = this.#chosen
    if (all !== this.#all || kept.filter !== filter || kept.sort !== sort)
      this.#chosen = { all: this.#all, filter, sort, rows: chosen(this.#all, filter, sort) }
    return this.#chosen.rows
  }

  #key(key: Key): void {
    const before = this.#state
    const { screen } = this.#terminal
    const end = before.view === 'one' ? mostScroll(this.#view, screen) : 0
    const { state, action } = press(before, key, this.#rows, pageSize(screen), end)
    this.#state = state
    if (action === 'quit') return this.#end()
    if (action === 'refresh' || (before.paused && !state.paused)) void this.#list()
    else if (action !== undefined) void this.#force(action.force, action.seen)
    this.#draw()
  }

  async #force(name: string, seen: readonly string[]): Promise<void> {
    let message: string
    try {
      const taken = await this.#source.force(name, seen)
      if (taken === undefined) message = `others hold "${plain(name)}" now; nothing was released`
      else
        message =
          taken === 0 ? `"${plain(name)}" was not held` : `released "${plain(name)}" (${taken} held it)`
    } catch (error) {
      message = error instanceof Error ? error.message : String(error)
    }
    this.#state = { ...this.#state, message }
    this.#draw()
    await this.#list()
  }

  get #view(): View {
    return {
      ...{ store: this.#source.store, rows: this.#rows, all: this.#all, state: this.#state },
      ...{
        took: this.#took,
        age: performance.now() - this.#at,
        every: this.#source.every,
        error: this.#error,
      },
    }
  }

  #draw(): void {
    if (!this.#over) this.#terminal.show(() => draw(this.#view, this.#terminal.screen))
  }

  #end(signal?: NodeJS.Signals): void {
    if (this.#over) return
    this.#over = true
    clearTimeout(this.#timer)
    void this.#terminal.close().then(() => this.#done(signal))
  }
}
