/**
 * How long a session may be relied upon, and how often it is proven. All from its time-out as the leader granted it.
 *
 * The leader counts a session's time from when it last heard of it, so a message that it answered proves the session for the
 * time-out counted from when that message *left*. Two things are taken off besides what every deadline loses:
 *
 * What a follower's clients do reaches the leader only with the follower's reports, which it asks for every half tick. An answer of
 * the leader says that it has had all reports before; the last of them may be half a tick old. One whole tick is taken off for
 * that. Where a server has been told to allow sessions shorter than two ticks that could be all there is, so never more than a
 * third.
 */
import { deadline } from '../../../core/clock.js'

export function provenUntil(sent: number, timeout: number, tick: number): number {
  return deadline(sent, timeout - Math.min(tick, timeout / 3))
}

/** How much of a session's time-out may be kept back: enough is left to be proven again by the next heartbeats. */
export function mostDelay(timeout: number): number {
  return Math.floor(timeout / 3)
}

export interface Pace {
  /** Between two looks at the connection, in ms. */
  readonly look: number
  /** A proof older than that is renewed by a heartbeat. */
  readonly beat: number
  /** A message unanswered for so long: the server is taken for dead, and the next one is asked. */
  readonly silence: number
  /** A server must have accepted the session within so long. */
  readonly connect: number
}

/** With a time-out of 10 s: a heartbeat every 1.7 s, another server after 1.7 s of silence, which leaves time for two more. */
export function paceOf(timeout: number): Pace {
  return {
    look: Math.max(10, timeout / 30),
    beat: timeout / 6,
    silence: timeout / 6,
    connect: Math.max(50, timeout / 8),
  }
}

/** Before the next server is tried, in ms: at once until each has been tried, then longer and longer, up to a second. */
export function pauseBefore(attempt: number, servers: number, chance: number): number {
  const round = Math.floor(attempt / servers)
  return round === 0 ? 0 : Math.min(1_000, 25 * 2 ** Math.min(round, 8)) * (0.5 + chance / 2)
}
