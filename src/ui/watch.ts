/**
 * Watches one store for all browsers: one sample at a time, at the pace of `pace.ts`, and none while nobody looks. Keeps the entries of the
 * last sample and the holds that ended in the last minutes.
 *
 * Long because when to ask, what came, and what went wrong share one state.
 */
import type { LockStatus, Locks } from 'holdfast'
import { type Forced, step } from './diff.js'
import { type Pace, pauseAfter, pauseAfterFailure } from './pace.js'
import type { Entry, Finding, Gap, GaveUp, Health, Past, StoreState, Tick } from './wire.js'

/** What the page needs of `Locks`. */
export type WatchedLocks = Pick<Locks, 'driver' | 'list' | 'inspect' | 'forceRelease'> & {
  readonly revoke: unknown
}

export interface StoreOptions {
  readonly locks: WatchedLocks
  /** What it is, for people: a URL without its password. @default the driver's name */
  readonly description?: string
  /** Examines the set-up, at most every five minutes while somebody looks. */
  readonly doctor?: () => Promise<readonly Finding[]>
}

export interface WatchOptions extends Pace {
  readonly prefix: string
  /** How far back the history goes, in ms. */
  readonly keeps: number
  readonly canRelease: boolean
  readonly tell: (tick: Tick) => void
}

/** The most holds that the history keeps, and the most names that are asked about between two lists. */
const maxPast = 3_000
const maxNames = 20
/** How long a store may be silent, and how old a diagnosis may be, in ms. */
const timeout = 10_000
const doctorEvery = 300_000

export class Watch {
  readonly #id: string
  readonly #store: StoreOptions
  readonly #options: WatchOptions
  #entries: ReadonlyMap<string, Entry> = new Map()
  #past: Past[] = []
  #gaveUp: GaveUp[] = []
  #gaps: Gap[] = []
  #health: Health
  #findings: readonly Finding[] | undefined
  #examined = Number.NEGATIVE_INFINITY
  #lists = true
  #failures = 0
  #running = false
  #timer: NodeJS.Timeout | undefined
  /** When the next list may be asked for, and when the last sample was read. */
  #listAt = 0
  #read: number | undefined
  #pending: Promise<unknown> | undefined
  /** How many browsers look at each name. */
  readonly #names = new Map<string, number>()
  readonly #forced = new Map<string, Forced>()

  constructor(id: string, store: StoreOptions, options: WatchOptions) {
    this.#id = id
    this.#store = store
    this.#options = options
    this.#health = { state: 'starting', took: 0, every: options.interval }
  }

  get running(): boolean {
    return this.#running
  }

  /** Somebody looks. */
  start(): void {
    if (this.#running) return
    this.#running = true
    this.#schedule(0)
  }

  /** Nobody looks any more; the sample under way is the last one. */
  stop(): void {
    this.#running = false
    clearTimeout(this.#timer)
    this.#timer = undefined
  }

  /** Asks about `name` at every interval, also between two lists. Returns a function that ends it. */
  follow(name: string): () => void {
    if (!this.#names.has(name) && this.#names.size >= maxNames) return () => undefined
    this.#names.set(name, (this.#names.get(name) ?? 0) + 1)
    if (this.#running && this.#pending === undefined) this.#schedule(0)
    let ended = false
    return () => {
      const left = (this.#names.get(name) ?? 1) - 1
      if (ended) return
      ended = true
      if (left > 0) this.#names.set(name, left)
      else this.#names.delete(name)
    }
  }

  state(): StoreState {
    const { locks, description = locks.driver.name, doctor } = this.#store
    return {
      id: this.#id,
      driver: locks.driver.name,
      about: description,
      health: this.#health,
      entries: [...this.#entries.values()],
      past: this.#past,
      gaveUp: this.#gaveUp,
      gaps: this.#gaps,
      ...(this.#findings !== undefined && { doctor: this.#findings }),
      examines: doctor !== undefined,
      canRelease: this.#options.canRelease,
      canAsk: locks.driver.traits.cells === true,
      lists: this.#lists,
    }
  }

  /**
   * Takes `name` from its holders, if they are the ones that `tokens` names. @param grace ms that they get to give way first; undefined: none
   * @returns what became of it; `changed`: others hold it now
   */
  async release(
    name: string,
    tokens: readonly number[],
    why: string,
    grace?: number,
  ): Promise<'free' | 'released' | 'forced' | 'changed'> {
    const { locks } = this.#store
    const { holders } = await locks.inspect(name)
    if (holders.length === 0) return 'free'
    if (holders.some(({ token }) => !tokens.includes(token))) return 'changed'
    const attempts = holders.map(({ attempt }) => attempt)
    this.#forced.set(name, { attempts, why })
    try {
      if (locks.driver.traits.cells === true) {
        const revoke = locks.revoke as Locks<'cells'>['revoke']
        return await revoke(name, { grace: grace ?? 0, why })
      }
      return (await locks.forceRelease(name)) > 0 ? 'forced' : 'free'
    } catch (error) {
      this.#forced.delete(name)
      throw error
    } finally {
      this.#listAt = 0
      if (this.#running && this.#pending === undefined) this.#schedule(0)
    }
  }

  #schedule(ms: number): void {
    if (!this.#running) return
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => void this.#sample(), ms).unref()
  }

  /** One sample; never rejects. */
  async #sample(): Promise<void> {
    const { interval } = this.#options
    // An answer that is still to come would otherwise be asked for again and again.
    if (this.#pending !== undefined) return
    const began = performance.now()
    const all = this.#lists && began >= this.#listAt
    const names = all ? [] : [...this.#names.keys()]
    if (!all && names.length === 0) return this.#schedule(this.#lists ? this.#listAt - began : interval)
    try {
      const standings = await this.#answer(
        all ? this.#list() : Promise.all(names.map((name) => this.#inspect(name))),
      )
      const took = performance.now() - began
      this.#failures = 0
      const pause = pauseAfter(this.#options, { commands: 1 + standings.length, took })
      if (all) this.#listAt = performance.now() + pause
      const health: Health = { state: 'ok', took, every: all ? pause : this.#health.every }
      this.#take(standings, took, all ? undefined : new Set(names), health)
      this.#schedule(this.#names.size > 0 || !this.#lists ? interval : pause)
    } catch (error) {
      this.#onError(error, performance.now() - began)
    }
    void this.#examine()
  }

  /** A name that no lock can have is free: what one browser asks for must not be trouble for all. */
  async #inspect(name: string): Promise<LockStatus> {
    try {
      return await this.#store.locks.inspect(name)
    } catch (error) {
      if (error instanceof RangeError) return { name, holders: [], waiters: [], lastToken: 0 }
      throw error
    }
  }

  #list(): Promise<readonly LockStatus[]> {
    return this.#store.locks.list(this.#options.prefix)
  }

  /** @throws Error after a long silence; the answer is then awaited no more, but nothing is asked before it has come. */
  async #answer(work: Promise<readonly LockStatus[]>): Promise<readonly LockStatus[]> {
    let timer: NodeJS.Timeout | undefined
    const silence = new Promise<never>((_, reject) => {
      const late = () => reject(new Error(`no answer within ${timeout / 1_000} s`))
      timer = setTimeout(late, timeout).unref()
    })
    const settled = work.then(
      () => undefined,
      () => undefined,
    )
    this.#pending = settled
    void settled.then(() => {
      this.#pending = undefined
      if (this.#failures > 0) this.#schedule(0)
    })
    try {
      return await Promise.race([work, silence])
    } finally {
      clearTimeout(timer)
    }
  }

  #take(standings: readonly LockStatus[], took: number, only: Set<string> | undefined, health: Health): void {
    const at = Date.now() - took / 2
    const gap = this.#gap(at)
    const { entries, changed, gone, past, gaveUp } = step(
      this.#entries,
      { at, standings, blind: gap !== undefined, ...(only !== undefined && { only }) },
      this.#forced,
    )
    this.#entries = entries
    this.#health = health
    this.#read = Date.now()
    for (const { name } of past) this.#forced.delete(name)
    const since = at - this.#options.keeps
    this.#past = [...this.#past.filter(({ to }) => to >= since), ...past].slice(-maxPast)
    this.#gaveUp = [...this.#gaveUp.filter((one) => one.at >= since), ...gaveUp].slice(-maxPast)
    this.#gaps = this.#gaps.filter(({ to }) => to >= since)
    this.#tell({ changed, gone, past, gaveUp, ...(gap !== undefined && { gap }) })
  }

  /** The time since the last sample, if it was much longer than it should have been: nobody looked, or the store was away. */
  #gap(at: number): Gap | undefined {
    if (this.#read === undefined || at - this.#read < 2 * this.#health.every + 2_000) return undefined
    const gap = { from: this.#read, to: at }
    this.#gaps.push(gap)
    return gap
  }

  #onError(error: unknown, took: number): void {
    const { name, code, message } = error as { name?: string; code?: string; message?: string }
    if (code === 'UNSUPPORTED' || name === 'UnsupportedError') this.#lists = false
    this.#failures += 1
    const every = pauseAfterFailure(this.#options, this.#failures)
    this.#health = this.#lists
      ? { state: 'trouble', took, every, trouble: String(message ?? error) }
      : { state: 'ok', took, every: this.#options.interval }
    this.#tell({})
    if (this.#pending === undefined) this.#schedule(this.#lists ? every : this.#options.interval)
  }

  async #examine(): Promise<void> {
    const { doctor } = this.#store
    if (doctor === undefined || !this.#running || performance.now() < this.#examined + doctorEvery) return
    this.#examined = performance.now()
    try {
      this.#findings = await doctor()
    } catch (error) {
      this.#findings = [{ level: 'problem', what: 'store', found: String((error as Error).message ?? error) }]
    }
    this.#tell({ doctor: this.#findings })
  }

  #tell(what: Partial<Tick>): void {
    const base = { now: Date.now(), id: this.#id, health: this.#health }
    this.#options.tell({ ...base, changed: [], gone: [], past: [], gaveUp: [], ...what })
  }
}
