/**
 * Long because the life of a claim is one state machine, told below.
 *
 * One claim that is asked for and waits.
 *
 * ```
 *   first try ──► granted ─────────────────────────────────────────────────────────────────────────► Hold
 *      │ no
 *      ▼            fits, nobody ahead: take it if the row is still as it was seen ──► granted ──────► Hold
 *   ┌► look ──────┤ yours: an answer was lost ─────────────────────────────────────────────────────► Hold
 *   │  │ busy     └ one attempt only, wait over ──► leave ──► nothing
 *   │  ▼
 *   └─ stand in line (once), say so again (every second), pause
 * ```
 * Whatever has no answer is looked at: the row says whose it is. A taking statement that is still on its way when its claim is given
 * up names the moment after which it is void (`latest`); until then the claim is ended once more behind it.
 */
import { deadline } from '../../core/clock.js'
import type { Claim, Wait } from '../../core/driver.js'
import { permitLimitError } from '../../core/errors.js'
import { Pause } from '../kit/pause.js'
import { number, text } from './client.js'
import type { Desk } from './desk.js'
import { giveUp } from './give-up.js'
import type { Proven } from './hold.js'
import { type Decision, decide, type Row, rowOf } from './look.js'
import { nextLook, type Progress, turnTime } from './patience.js'
import * as sql from './sql.js'
import { type Trouble, troubleOf } from './trouble.js'

/** How a strategy takes a lock; waiting is the same for all. */
export interface Taker {
  /** One guarded attempt. Undefined: not taken. */
  take(claim: Claim, guard: sql.Guard): Promise<Proven | undefined>
  /** A grant that the row says is ours although no answer said so. */
  recover(row: Row, claim: Claim, sent: number): Proven | undefined
  /** Ends what `take` may have begun. */
  undo(claim: Claim): Promise<void>
  /** Woken by something better than time, while first in line, within so many seconds. Undefined: there is nothing. */
  listen?(name: string, seconds: number): Promise<void> | undefined
}

/** A waiter says so often that it is there, in ms: a third of the time after which it is thought dead. */
const sayEvery = 1_000
/** Who has not spoken for so long, measured here, is dead, in ms. */
const silentFor = sql.freshFor / 1_000 + 500

export class Waiter {
  readonly #desk: Desk
  readonly #taker: Taker
  readonly #claim: Claim
  readonly #wait: Wait
  readonly #once: boolean
  readonly #pause: Pause
  #ticket: number | undefined
  #inLine = false
  #parked = false
  #doubtful = false
  #saidAt = Number.NEGATIVE_INFINITY
  #failures = 0
  #looks = 0
  #misses = 0
  #progress: Progress | undefined
  #turn: number | undefined
  #version = -1
  #unchangedSince = 0
  /** Who was seen first in line, with when it spoke: since when that is known here. */
  readonly #stamps = new Map<string, number>()
  /** Before the last look left that did not find it holding. */
  #notOursAt: number

  constructor(desk: Desk, taker: Taker, claim: Claim, wait: Wait) {
    this.#desk = desk
    this.#taker = taker
    this.#claim = claim
    this.#wait = wait
    this.#once = wait.remaining() === 0
    this.#pause = new Pause(desk.clock)
    this.#notOursAt = desk.clock.now()
  }

  /** @throws BackendError, RangeError; undefined: the wait is over, and nothing is left of it */
  async run(): Promise<Proven | undefined> {
    try {
      const proven = await this.#untilTaken()
      if (proven !== undefined && !this.#isOver()) {
        return this.#inLine ? { ...proven, left: this.#leaveLine() } : proven
      }
      await this.#giveUp(proven !== undefined)
      return undefined
    } catch (error) {
      await this.#giveUp(false)
      throw error
    } finally {
      if (this.#parked) {
        this.#desk.pauses.delete(this.#pause.cut)
        this.#wait.signal.removeEventListener('abort', this.#pause.cut)
      }
    }
  }

  /** In the background. Nobody is served while it stands there and does not hold, so a release ends when this has. */
  #leaveLine(): Promise<void> {
    const { ask, tables, behind } = this.#desk
    const leave = () => ask(sql.leave(tables, this.#claim.attempt), true)
    const left = leave()
      .catch(leave)
      .then(
        () => undefined,
        () => undefined,
      )
    behind(left)
    return left
  }

  /** Only who has to pause listens for the end of it: most never do. */
  async #park(ms: number): Promise<void> {
    if (!this.#parked) {
      this.#parked = true
      this.#desk.pauses.add(this.#pause.cut)
      this.#wait.signal.addEventListener('abort', this.#pause.cut)
    }
    if (!this.#isOver()) await this.#pause.take(ms)
  }

  #isOver(): boolean {
    return this.#desk.closed || (this.#wait.over && !this.#once)
  }

  async #untilTaken(): Promise<Proven | undefined> {
    let step: () => Promise<Proven | 'again' | 'end'> = () => this.#first()
    for (;;) {
      let outcome: Proven | 'again' | 'end'
      try {
        outcome = await step()
        this.#failures = 0
      } catch (error) {
        if (error instanceof RangeError) throw error
        outcome = await this.#trouble(troubleOf(error))
      }
      if (outcome === 'end') return undefined
      if (outcome !== 'again') return outcome
      if (this.#isOver()) return undefined
      step = () => this.#lookAndAct()
    }
  }

  async #first(): Promise<Proven | 'again'> {
    return (await this.#take({ is: 'first' })) ?? 'again'
  }

  async #take(guard: sql.Guard): Promise<Proven | undefined> {
    return this.#taker.take(this.#claim, guard)
  }

  async #lookAndAct(): Promise<Proven | 'again' | 'end'> {
    const { ask, tables, clock } = this.#desk
    const { name } = this.#claim
    const { rows, sent } = await ask(sql.look(tables, this.#claim, this.#ticket))
    const values = rows[0]
    if (values === undefined) {
      await ask(sql.create(tables, name))
      return (await this.#take({ is: 'first' })) ?? 'again'
    }
    const row = rowOf(values)
    const ahead = number(values[16])
    this.#desk.heard(row.now, sent)
    if (await this.#passesOver(text(values[18]), sent)) return 'again'
    if (row.version !== this.#version) {
      this.#version = row.version
      this.#unchangedSince = clock.now()
    }
    const ours = this.#taker.recover(row, this.#claim, sent)
    if (ours !== undefined) return ours
    const [standing, once, silent] = [this.#inLine, this.#once, sent - this.#unchangedSince]
    const decision = decide(row, this.#claim, { ahead, wanted: number(values[17]), standing, once, silent })
    if (decision.is !== 'mine') this.#notOursAt = sent
    return this.#act(decision, ahead, sent)
  }

  /** A clock that was put back makes one that died seem alive: that it says nothing new shows by the clock of this process. */
  async #passesOver(first: string, sent: number): Promise<boolean> {
    if (first === '') return false
    const since = this.#stamps.get(first)
    if (since === undefined) {
      this.#stamps.set(first, sent)
      const [oldest] = this.#stamps.keys()
      if (this.#stamps.size > 30 && oldest !== undefined) this.#stamps.delete(oldest)
      return false
    }
    if (sent - since <= silentFor) return false
    this.#stamps.delete(first)
    await this.#desk.ask(sql.passOver(this.#desk.tables, first))
    return true
  }

  async #act(decision: Decision, ahead: number, sent: number): Promise<Proven | 'again' | 'end'> {
    const { mode, name } = this.#claim
    switch (decision.is) {
      case 'mine':
        return {
          token: decision.token,
          // It was taken after that look, whatever a clock that was put back since makes of what is left.
          validUntil: Math.min(deadline(sent, decision.left), deadline(this.#notOursAt, this.#claim.ttl)),
          since: decision.since,
        }
      case 'limit':
        throw permitLimitError(name, decision.limit, mode.kind === 'permits' ? mode.of : 0)
      case 'take':
        return (await this.#take(decision.guard)) ?? (await this.#beside()) ?? this.#missed(ahead)
      case 'busy':
        this.#misses = 0
        return this.#busy(decision, ahead)
    }
  }

  /** Others who come and go change the row, and are not in the way of a reader, or of permits: no look before this. */
  async #beside(): Promise<Proven | undefined> {
    return this.#inLine || this.#claim.mode.kind === 'exclusive' ? undefined : this.#take({ is: 'first' })
  }

  /** Somebody was faster; after a few times in a row that is like being in the way. */
  #missed(ahead: number): Promise<'again' | 'end'> | 'again' {
    if (++this.#misses <= 3) return 'again'
    return this.#busy({ is: 'busy', holder: undefined, left: Number.POSITIVE_INFINITY }, ahead)
  }

  async #busy({ holder, left }: Decision & { is: 'busy' }, ahead: number): Promise<'again' | 'end'> {
    const { clock, random } = this.#desk
    const came = !this.#inLine
    // Who is told to wait stands in line: what comes later may not go before it.
    if (!this.#once && (came || clock.now() - this.#saidAt >= sayEvery)) await this.#sayWaiting()
    this.#wait.blocked?.({ ...(holder && { holder }), ...(!came && { position: ahead + 1 }) })
    if (this.#once) return 'end'
    // Whoever released before the place was taken did not know of it.
    if (came) return 'again'
    const progress = { at: clock.now(), ahead }
    this.#turn = (this.#progress && turnTime(this.#progress, progress)) ?? this.#turn
    this.#looks =
      this.#progress !== undefined && this.#progress.ahead > 0 && ahead === 0 ? 0 : this.#looks + 1
    if (this.#progress === undefined || this.#progress.ahead !== ahead) this.#progress = progress
    const ms = nextLook(ahead, this.#looks, left, this.#turn, random())
    await this.#rest(ahead, Math.min(ms, sayEvery), left)
    return 'again'
  }

  async #rest(ahead: number, ms: number, left: number): Promise<void> {
    const heard = ahead === 0 ? this.#taker.listen?.(this.#claim.name, 1) : undefined
    if (heard === undefined) return this.#park(ms)
    // Whatever comes first: the bell, the end of the wait or of the hold, or the time to say again that somebody waits.
    heard.then(this.#pause.cut, () => undefined)
    await this.#park(Math.min(left + 1, sayEvery))
  }

  /**
   * The place first, then the mark that makes newcomers look: one that has seen nobody takes the mark away as it takes the lock. Set before
   * the place, it would be gone, and who came next would pass by unseen.
   */
  async #sayWaiting(): Promise<void> {
    const { ask, tables, clock, by } = this.#desk
    const at = clock.now()
    const known = this.#ticket !== undefined && (await ask(sql.refresh(tables, this.#ticket))).id !== 0
    if (!known) {
      this.#inLine = true
      this.#ticket = (await ask(sql.enqueue(tables, this.#claim, by))).id
    }
    await ask(sql.mark(tables, this.#claim.name))
    this.#saidAt = at
  }

  async #trouble({ passing, unknown, error }: Trouble): Promise<'again'> {
    if (unknown) this.#doubtful = true
    this.#wait.blocked?.({ trouble: error })
    const { random } = this.#desk
    const pause = Math.min(1_000, 25 * 2 ** Math.min(this.#failures++, 6)) * (0.5 + random())
    if (!passing || this.#once || this.#wait.remaining() <= pause) throw error
    await this.#park(pause)
    return 'again'
  }

  /** Leaves the line, and gives back what came meanwhile or may still come. */
  async #giveUp(taken: boolean): Promise<void> {
    const { ask, tables } = this.#desk
    const { attempt, ttl } = this.#claim
    const end = async () => {
      if (this.#inLine) await ask(sql.leave(tables, attempt), true)
      if (taken || this.#doubtful) await this.#taker.undo(this.#claim)
    }
    return giveUp(this.#desk, end, ttl, this.#doubtful)
  }
}
