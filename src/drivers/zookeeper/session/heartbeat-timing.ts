/**
 * How long the client can rely on a session, and how often it proves it. Everything follows from the timeout that the servers
 * granted and from their tick.
 *
 * Only the leader ends a session. It counts the timeout from the last report of that session. The followers report their clients'
 * activity only when the leader asks, every half tick. An answer of the leader therefore does not cover the message it answers;
 * it shows that every earlier report has arrived. A message counts as *reported* when a later message, sent at least a `lag`
 * after the answer to the first, was answered by the leader: a report lies between the two. The whole timeout counts from when
 * the reported message was sent.
 *
 * The lag is one and a half ticks. Reports are half a tick apart; another half allows for late reports. A leader that lost its
 * majority may answer for a tick and a half longer than its followers wait before they elect another leader, which gives each
 * session its whole timeout from then on. What the old leader confirms is thus at most one and a half ticks old, too.
 */
import { deadline } from '../../../core/clock.js'

/** The least session timeout in ticks: a client cannot rely on a shorter session for long enough. */
export const minTicks = 3

export function reportLag(tick: number): number {
  return 1.5 * tick
}

/** @param proven the clock reading from before the newest message reported to the leader was sent */
export function provenUntil(proven: number, timeout: number): number {
  return deadline(proven, timeout)
}

/** The longest ttl: how long a client can rely on a healthy session at any moment, even right before the next heartbeat is answered. */
export function maxLeaseTtl(timeout: number, tick: number): number {
  const { heartbeatInterval } = heartbeatTiming(timeout, tick)
  const oldest = Math.ceil(reportLag(tick) / heartbeatInterval) * heartbeatInterval + heartbeatInterval
  return Math.max(0, Math.floor(provenUntil(0, timeout) - oldest))
}

/** The longest `lockDelay`: half of the longest ttl, so that as much is left for the lease. */
export function maxLockDelay(timeout: number, tick: number): number {
  return Math.floor(maxLeaseTtl(timeout, tick) / 2)
}

export interface HeartbeatTiming {
  /** The time between two checks of the connection, in ms. */
  readonly checkInterval: number
  /** The time between two heartbeats, in ms. */
  readonly heartbeatInterval: number
  /** After a message is unanswered for this long, in ms, the server counts as dead, and the client tries the next one. */
  readonly silenceTimeout: number
  /** The time that a server has to accept the session, in ms. */
  readonly connectTimeout: number
}

/**
 * A heartbeat at least every sixth of the timeout. Where the lag is longer than that, the lag plus the time for an answer is a whole number of
 * heartbeats, so that each heartbeat finds an earlier one that is just old enough.
 */
export function heartbeatTiming(timeout: number, tick: number): HeartbeatTiming {
  const sixth = timeout / 6
  const lag = reportLag(tick) + timeout / 100
  return {
    checkInterval: Math.max(10, timeout / 30),
    heartbeatInterval: lag <= sixth ? sixth : lag / Math.ceil(lag / sixth),
    silenceTimeout: sixth,
    connectTimeout: Math.max(50, timeout / 8),
  }
}

/** The pause before the next server is tried, in ms: none until each was tried once, then growing up to a second. */
export function pauseBefore(attempt: number, servers: number, chance: number): number {
  const round = Math.floor(attempt / servers)
  return round === 0 ? 0 : Math.min(1_000, 25 * 2 ** Math.min(round, 8)) * (0.5 + chance / 2)
}

/** The answered messages of one connection, and which of them were reported to the leader. */
export class ReportedMessages {
  readonly #lag: number
  /** In order, with the times sent and answered. */
  #answered: { readonly sent: number; readonly at: number }[] = []

  constructor(lag: number) {
    this.#lag = lag
  }

  /** For a new connection: the reports of one server do not cover the messages sent to another. */
  clear(): void {
    this.#answered = []
  }

  /** Any message will do: a server counts all of them. One message per hundredth of the lag is enough. */
  answered(sent: number, at: number): void {
    const last = this.#answered.at(-1)
    if (last === undefined || sent - last.sent >= this.#lag / 100) this.#answered.push({ sent, at })
  }

  /** The leader has answered the message sent at `sent`. @returns when the newest message reported to the leader by then was sent */
  upTo(sent: number): number {
    const newest = this.#answered.findLastIndex(({ at }) => at <= sent - this.#lag)
    if (newest < 0) return Number.NEGATIVE_INFINITY
    this.#answered = this.#answered.slice(newest)
    return this.#answered[0]?.sent ?? Number.NEGATIVE_INFINITY
  }
}
