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
import type { LocalWaiter } from '../kit/local-waiters.js'
import { cleanUp } from './cleanup.js'
import { number, text } from './client.js'
import { type Decision, decide, parseRow, type Row } from './decision.js'
import { type Failure, toFailure } from './failure.js'
import type { HoldProof } from './hold.js'
import { nextPollIn, type Progress, turnTime } from './poll-schedule.js'
import { announceEvery } from './quiet-waiters.js'
import type { Runtime } from './runtime.js'
import * as sql from './sql.js'

/** How a strategy acquires a lock; waiting is the same for all strategies. */
export interface Strategy {
  /** One guarded attempt. Undefined: not taken. */
  acquire(claim: Claim, guard: sql.Precondition): Promise<HoldProof | undefined>
  /** A grant that the row records as ours although no reply reported it. */
  claimFromRow(row: Row, claim: Claim, sent: number): HoldProof | undefined
  /** Ends what `take` may have begun. */
  rollback(claim: Claim): Promise<void>
  /** A wake-up better than polling for the first waiter in the queue, within `seconds`. Undefined: there is none. */
  notified?(name: string, seconds: number): Promise<void> | undefined
}

/** Each may meet another connection with such a ticket. */
const triesToEnqueue = 10

/** A waiter that has not refreshed its entry for this long, measured here, is dead, in ms. */
const presumedDeadAfter = sql.livenessWindow / 1_000 + 500

/**
 * If a reply is lost, the waiter reads the row, which names the owner. A take statement carries the moment after which it is void
 * (`latest`). If it is still in flight when its claim is given up, the claim is ended once more behind it: see `cleanup.ts`.
 */
export class Waiter {
  readonly #runtime: Runtime
  readonly #strategy: Strategy
  readonly #claim: Claim
  readonly #wait: Wait
  readonly #once: boolean
  readonly #pause: AutoResetEvent
  #ticket: number | undefined
  /** Its place among the waiters of this process; of an exclusive claim in the queue. */
  #local: LocalWaiter | undefined
  #isQueued = false
  #parked = false
  #ambiguous = false
  #announcedAt = Number.NEGATIVE_INFINITY
  #failures = 0
  #polls = 0
  #misses = 0
  #progress: Progress | undefined
  #turnTime: number | undefined
  #version = -1
  #unchangedSince = 0
  /** By head of the queue and its last refresh: when this process first saw that. */
  readonly #stamps = new Map<string, number>()
  /** Clock reading before the last look that did not find it holding was sent. */
  #notOwnedAt: number

  constructor(runtime: Runtime, strategy: Strategy, claim: Claim, wait: Wait) {
    this.#runtime = runtime
    this.#strategy = strategy
    this.#claim = claim
    this.#wait = wait
    this.#once = wait.remaining() === 0
    this.#pause = new AutoResetEvent(runtime.clock)
    this.#notOwnedAt = runtime.clock.now()
  }

  /** Undefined: the wait is over, and nothing of the claim is left. @throws BackendError, RangeError */
  async run(): Promise<HoldProof | undefined> {
    try {
      const proven = await this.#acquireLoop()
      if (proven !== undefined && !this.#isOver()) {
        return this.#isQueued ? { ...proven, left: this.#leaveQueue() } : proven
      }
      await this.#giveUp(proven !== undefined)
      return undefined
    } catch (error) {
      await this.#giveUp(false)
      throw error
    } finally {
      this.#local?.leave()
      if (this.#parked) {
        this.#runtime.closeListeners.delete(this.#pause.set)
        this.#wait.signal.removeEventListener('abort', this.#pause.set)
      }
    }
  }

  /** In the background. While the entry of a claim that does not hold is in the queue, nobody is served, so a release waits for this. */
  #leaveQueue(): Promise<void> {
    const { execute, tables, background } = this.#runtime
    const leave = () => execute(sql.leave(tables, this.#claim.attempt), true)
    const left = leave()
      .catch(leave)
      .then(
        () => undefined,
        () => undefined,
      )
    background(left)
    return left
  }

  /** Listens for the end of the wait only once it has to pause: most claims never do. */
  async #park(ms: number): Promise<void> {
    if (!this.#parked) {
      this.#parked = true
      this.#runtime.closeListeners.add(this.#pause.set)
      this.#wait.signal.addEventListener('abort', this.#pause.set)
    }
    if (!this.#isOver()) await this.#pause.wait(ms)
  }

  #isOver(): boolean {
    return this.#runtime.closed || (this.#wait.ended && !this.#once)
  }

  async #acquireLoop(): Promise<HoldProof | undefined> {
    let step: () => Promise<HoldProof | 'again' | 'end'> = () => this.#begin()
    for (;;) {
      let outcome: HoldProof | 'again' | 'end'
      try {
        outcome = await step()
        this.#failures = 0
      } catch (error) {
        if (error instanceof RangeError) throw error
        outcome = await this.#onFailure(toFailure(error))
      }
      if (outcome === 'end') return undefined
      if (outcome !== 'again') return outcome
      if (this.#isOver()) return undefined
      step = () => this.#readAndAct()
    }
  }

  #begin(): Promise<HoldProof | 'again'> {
    if (this.#once) return this.#firstAttempt()
    const waiters = this.#runtime.waiters.of(this.#claim.name)
    return waiters.enter(async () => {
      if (this.#isOver()) return 'again'
      // Where another of this process waits, the lock is taken, and what it has is said after the next look.
      if (this.#claim.mode.kind !== 'exclusive' || !waiters.some) return this.#firstAttempt()
      await this.#announce()
      return 'again'
    })
  }

  async #firstAttempt(): Promise<HoldProof | 'again'> {
    return (await this.#tryAcquire({ is: 'first' })) ?? 'again'
  }

  async #tryAcquire(guard: sql.Precondition): Promise<HoldProof | undefined> {
    return this.#strategy.acquire(this.#claim, guard)
  }

  async #readAndAct(): Promise<HoldProof | 'again' | 'end'> {
    const { execute, tables, clock } = this.#runtime
    const { name } = this.#claim
    const { rows, sent } = await execute(sql.readRow(tables, this.#claim, this.#ticket))
    const values = rows[0]
    if (values === undefined) {
      await execute(sql.create(tables, name))
      return (await this.#tryAcquire({ is: 'first' })) ?? 'again'
    }
    const row = parseRow(values)
    const ahead = number(values[16])
    this.#runtime.noteServerTime(values[19], sent)
    if (await this.#skipsDead(text(values[18]), sent)) return 'again'
    if (row.version !== this.#version) {
      this.#version = row.version
      this.#unchangedSince = clock.now()
    }
    const ours = this.#strategy.claimFromRow(row, this.#claim, sent)
    if (ours !== undefined) return ours
    const [queued, once, unchangedFor] = [this.#isQueued, this.#once, sent - this.#unchangedSince]
    const decision = decide(row, this.#claim, {
      ahead,
      wanted: number(values[17]),
      queued,
      once,
      unchangedFor,
    })
    if (decision.is !== 'mine') this.#notOwnedAt = sent
    return this.#act(decision, ahead, sent)
  }

  /** A clock that was put back makes a dead waiter seem alive. The clock of this process shows that the waiter refreshes nothing. */
  async #skipsDead(first: string, sent: number): Promise<boolean> {
    if (first === '') return false
    const since = this.#stamps.get(first)
    if (since === undefined) {
      this.#stamps.set(first, sent)
      const [oldest] = this.#stamps.keys()
      if (this.#stamps.size > 30 && oldest !== undefined) this.#stamps.delete(oldest)
      return false
    }
    if (sent - since <= presumedDeadAfter) return false
    this.#stamps.delete(first)
    await this.#runtime.execute(sql.skip(this.#runtime.tables, first))
    return true
  }

  async #act(decision: Decision, ahead: number, sent: number): Promise<HoldProof | 'again' | 'end'> {
    const { mode, name } = this.#claim
    switch (decision.is) {
      case 'mine':
        return {
          token: decision.token,
          // The lock was taken after that look, however much time a clock that was put back since seems to leave.
          validUntil: Math.min(deadline(sent, decision.left), deadline(this.#notOwnedAt, this.#claim.ttl)),
          since: decision.since,
        }
      case 'limit':
        throw permitLimitError(name, decision.limit, mode.kind === 'permits' ? mode.of : 0)
      case 'take':
        return (await this.#tryAcquire(decision.guard)) ?? (await this.#tryShared()) ?? this.#onMissed(ahead)
      case 'busy':
        this.#misses = 0
        return this.#reportBusy(decision, ahead)
    }
  }

  /** Other holders come and go and change the row, but do not block a reader or permits: this tries without another look. */
  async #tryShared(): Promise<HoldProof | undefined> {
    return this.#isQueued || this.#claim.mode.kind === 'exclusive'
      ? undefined
      : this.#tryAcquire({ is: 'first' })
  }

  /** Somebody was faster. After a few misses in a row, the lock counts as busy. */
  #onMissed(ahead: number): Promise<'again' | 'end'> | 'again' {
    if (++this.#misses <= 3) return 'again'
    return this.#reportBusy({ is: 'busy', holder: undefined, left: Number.POSITIVE_INFINITY }, ahead)
  }

  async #reportBusy({ holder, left }: Decision & { is: 'busy' }, ahead: number): Promise<'again' | 'end'> {
    const { clock, random } = this.#runtime
    const came = !this.#isQueued
    // Enqueue before reporting "blocked", so that later arrivals cannot barge.
    if (!this.#once && (came || clock.now() - this.#announcedAt >= announceEvery)) await this.#announce()
    this.#wait.report?.({ ...(holder && { holder }), ...(!came && { position: ahead + 1 }) })
    if (this.#once) return 'end'
    // A holder that released before the entry existed did not know of it.
    if (came) return 'again'
    if (this.#local?.watches === false) return this.#untilNear(this.#local)
    const progress = { at: clock.now(), ahead }
    this.#turnTime = (this.#progress && turnTime(this.#progress, progress)) ?? this.#turnTime
    this.#polls =
      this.#progress !== undefined && this.#progress.ahead > 0 && ahead === 0 ? 0 : this.#polls + 1
    if (this.#progress === undefined || this.#progress.ahead !== ahead) this.#progress = progress
    const ms = nextPollIn(ahead, this.#polls, left, this.#turnTime, random())
    await this.#sleep(ahead, Math.min(ms, announceEvery), left)
    return 'again'
  }

  /** Others of this process are before it: it need not look until they have gone. */
  async #untilNear({ order }: LocalWaiter): Promise<'again'> {
    const { quiet } = this.#runtime
    // When the entry is gone, the next look puts another, at the end.
    quiet.add(order, { onGone: this.#pause.set, onFailure: (error) => this.#wait.report?.({ error }) })
    await this.#park(Number.POSITIVE_INFINITY)
    quiet.delete(order)
    // Nobody watched the row meanwhile: the same version, of a restored row, does not show that it has not changed.
    this.#version = -1
    return 'again'
  }

  async #sleep(ahead: number, ms: number, left: number): Promise<void> {
    const notified = ahead === 0 ? this.#strategy.notified?.(this.#claim.name, 1) : undefined
    if (notified === undefined) return this.#park(ms)
    // Whichever comes first: the notification, the end of the wait or of the hold, or the time to refresh the entry.
    notified.then(this.#pause.set, () => undefined)
    await this.#park(Math.min(left + 1, announceEvery))
  }

  /**
   * Inserts the queue entry before setting the mark that makes newcomers look. A newcomer that sees no entry clears the mark as it takes the
   * lock. So in the opposite order the mark could be lost, and the next newcomer would overtake unnoticed.
   */
  async #announce(): Promise<void> {
    const { execute, tables, clock, by } = this.#runtime
    const at = clock.now()
    const known = this.#ticket !== undefined && (await execute(sql.refresh(tables, this.#ticket))).id !== 0
    if (!known) {
      this.#isQueued = true
      let ticket = 0
      // A ticket that the application has left on the connection (`SET insert_id`) is used up by the first try.
      for (let tries = 0; ticket === 0 && tries < triesToEnqueue; tries++)
        ticket = (await execute(sql.enqueue(tables, this.#claim, by))).id
      this.#ticket = ticket
      this.#join(ticket)
    }
    await execute(sql.setWaitersFlag(tables, this.#claim.name))
    this.#announcedAt = at
  }

  #join(ticket: number): void {
    if (this.#claim.mode.kind !== 'exclusive') return
    this.#local?.leave()
    this.#local = this.#runtime.waiters.of(this.#claim.name).join(ticket)
    this.#local.wake = this.#pause.set
  }

  async #onFailure({ transient, ambiguous, error }: Failure): Promise<'again'> {
    if (ambiguous) this.#ambiguous = true
    this.#wait.report?.({ error })
    const { random } = this.#runtime
    const pause = Math.min(1_000, 25 * 2 ** Math.min(this.#failures++, 6)) * (0.5 + random())
    if (!transient || this.#once || this.#wait.remaining() <= pause) throw error
    await this.#park(pause)
    return 'again'
  }

  /** Leaves the queue, and releases what was granted meanwhile or may still be granted. */
  async #giveUp(taken: boolean): Promise<void> {
    const { execute, tables } = this.#runtime
    const { attempt, name, ttl } = this.#claim
    const end = async () => {
      const leave = () => execute(sql.leave(tables, attempt), true)
      if (this.#isQueued) await this.#runtime.waiters.of(name).exit(leave)
      if (taken || this.#ambiguous) await this.#strategy.rollback(this.#claim)
    }
    return cleanUp(this.#runtime, end, ttl, this.#ambiguous)
  }
}
