/**
 * One claim that asks for the lock and waits; the same for all strategies.
 * ```
 *   first try ──► granted ─────────────────────────────────────────────────────────────────────────► Hold
 *      │ no
 *      ▼            fits, nobody ahead: take it if the row is still as it was seen ──► granted ──────► Hold
 *   ┌► look ──────┤ yours: an answer was lost ─────────────────────────────────────────────────────► Hold
 *   │  │ busy     └ one attempt only, wait over ──► leave ──► nothing
 *   │  ▼
 *   └─ enqueue (once), refresh the entry (every second), pause
 * ```
 * Long because the life of a claim is one state machine.
 */
import { deadline } from '../../core/clock.js'
import type { Claim, Wait } from '../../core/driver.js'
import { permitLimitError } from '../../core/errors.js'
import { AutoResetEvent } from '../kit/auto-reset-event.js'
import { giveUp } from './cleanup.js'
import { number, text } from './client.js'
import { type Decision, decide, type Row, rowOf } from './decision.js'
import { type Trouble, troubleOf } from './failure.js'
import type { Proven } from './hold.js'
import { nextLook, type Progress, turnTime } from './poll-schedule.js'
import type { Desk } from './runtime.js'
import * as sql from './sql.js'

/** How a strategy acquires a lock; waiting is the same for all strategies. */
export interface Taker {
  /** One guarded attempt. Undefined: not taken. */
  take(claim: Claim, guard: sql.Guard): Promise<Proven | undefined>
  /** A grant that the row records as ours although no reply reported it. */
  recover(row: Row, claim: Claim, sent: number): Proven | undefined
  /** Ends what `take` may have begun. */
  undo(claim: Claim): Promise<void>
  /** A wake-up better than polling for the first waiter in the queue, within `seconds`. Undefined: there is none. */
  listen?(name: string, seconds: number): Promise<void> | undefined
}

/** How often a waiter refreshes its queue entry, in ms: a third of the time after which it is presumed dead. */
const sayEvery = 1_000
/** A waiter that has not refreshed its entry for this long, measured here, is dead, in ms. */
const silentFor = sql.freshFor / 1_000 + 500

/**
 * If a reply is lost, the waiter reads the row, which names the owner. A take statement carries the moment after which it is void
 * (`latest`). If it is still in flight when its claim is given up, the claim is ended once more behind it: see `cleanup.ts`.
 */
export class Waiter {
  readonly #desk: Desk
  readonly #taker: Taker
  readonly #claim: Claim
  readonly #wait: Wait
  readonly #once: boolean
  readonly #pause: AutoResetEvent
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
  /** By head of the queue and its last refresh: when this process first saw that. */
  readonly #stamps = new Map<string, number>()
  /** Clock reading before the last look that did not find it holding was sent. */
  #notOursAt: number

  constructor(desk: Desk, taker: Taker, claim: Claim, wait: Wait) {
    this.#desk = desk
    this.#taker = taker
    this.#claim = claim
    this.#wait = wait
    this.#once = wait.remaining() === 0
    this.#pause = new AutoResetEvent(desk.clock)
    this.#notOursAt = desk.clock.now()
  }

  /** Undefined: the wait is over, and nothing of the claim is left. @throws BackendError, RangeError */
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
        this.#desk.pauses.delete(this.#pause.set)
        this.#wait.signal.removeEventListener('abort', this.#pause.set)
      }
    }
  }

  /** In the background. While the entry of a claim that does not hold is in the queue, nobody is served, so a release waits for this. */
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

  /** Listens for the end of the wait only once it has to pause: most claims never do. */
  async #park(ms: number): Promise<void> {
    if (!this.#parked) {
      this.#parked = true
      this.#desk.pauses.add(this.#pause.set)
      this.#wait.signal.addEventListener('abort', this.#pause.set)
    }
    if (!this.#isOver()) await this.#pause.wait(ms)
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

  /** A clock that was put back makes a dead waiter seem alive. The clock of this process shows that the waiter refreshes nothing. */
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
          // The lock was taken after that look, however much time a clock that was put back since seems to leave.
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

  /** Other holders come and go and change the row, but do not block a reader or permits: this tries without another look. */
  async #beside(): Promise<Proven | undefined> {
    return this.#inLine || this.#claim.mode.kind === 'exclusive' ? undefined : this.#take({ is: 'first' })
  }

  /** Somebody was faster. After a few misses in a row, the lock counts as busy. */
  #missed(ahead: number): Promise<'again' | 'end'> | 'again' {
    if (++this.#misses <= 3) return 'again'
    return this.#busy({ is: 'busy', holder: undefined, left: Number.POSITIVE_INFINITY }, ahead)
  }

  async #busy({ holder, left }: Decision & { is: 'busy' }, ahead: number): Promise<'again' | 'end'> {
    const { clock, random } = this.#desk
    const came = !this.#inLine
    // Enqueue before reporting "blocked", so that later arrivals cannot barge.
    if (!this.#once && (came || clock.now() - this.#saidAt >= sayEvery)) await this.#sayWaiting()
    this.#wait.blocked?.({ ...(holder && { holder }), ...(!came && { position: ahead + 1 }) })
    if (this.#once) return 'end'
    // A holder that released before the entry existed did not know of it.
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
    // Whichever comes first: the bell, the end of the wait or of the hold, or the time to refresh the entry.
    heard.then(this.#pause.set, () => undefined)
    await this.#park(Math.min(left + 1, sayEvery))
  }

  /**
   * Inserts the queue entry before setting the mark that makes newcomers look. A newcomer that sees no entry clears the mark as it takes the
   * lock. So in the opposite order the mark could be lost, and the next newcomer would overtake unnoticed.
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

  /** Leaves the queue, and releases what was granted meanwhile or may still be granted. */
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
