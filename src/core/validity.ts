/**
 * Until when the holder may rely on its grant, given the renewals it has sent. This is the one place for that rule: a
 * driver only reports what the store replied.
 *
 * A store sets the end of a grant to the moment at which it carries out a renewal plus the `ttl` of that renewal, so
 * a renewal can also bring the end forward. Which of several renewals the store carried out last is known only in
 * part. One that was sent after the reply to another came after it. One without a reply may be carried out at any
 * later time, or never. So the end is at least
 *
 *     max(newest sending that was answered, own sending) + own ttl
 *
 * for the renewal that came last, and the holder counts with the least of these. That is:
 * - while a shorter renewal is under way, the smaller of the old end and the new;
 * - once it has been answered, the store's reply;
 * - if it never is, its shorter ttl from then on: each later reply counts for no longer than that, because the old
 *   request may still arrive after it.
 */
import { deadline } from './clock.js'

/** One renewal that was sent. */
export interface Asked {
  readonly sent: number
  readonly ttl: number
  /** How many renewals were sent before it. */
  readonly place: number
  /** How many had been sent when its reply came; undefined: there is none yet. */
  answered?: number
  /** It will never be answered, but the store may have carried it out, or may yet do so. */
  failed?: true
}

export class Validity {
  /** Clock reading; Infinity until the first renewal: only the grant's own value counts then. */
  until: number = Number.POSITIVE_INFINITY
  #places = 0
  /** When the newest answered renewal was sent. */
  #proven = Number.NEGATIVE_INFINITY
  /** Any of these may be the last that the store carried out. */
  #asked: Asked[] = []

  ask(sent: number, ttl: number): Asked {
    const asked = { sent, ttl, place: this.#places++ }
    this.#asked.push(asked)
    this.#count()
    return asked
  }

  /** The store has carried it out. */
  answered(asked: Asked): void {
    asked.answered = this.#places
    this.#proven = Math.max(this.#proven, asked.sent)
    this.#asked = this.#asked.filter(({ answered }) => answered === undefined || answered > asked.place)
    this.#count()
  }

  /** It was never sent, and never will be. */
  refused(asked: Asked): void {
    this.#asked = this.#asked.filter((other) => other !== asked)
    this.#count()
  }

  /** It will never be answered. */
  failed(asked: Asked): void {
    asked.failed = true
    const least = (other: Asked) =>
      other === asked ||
      other.failed !== true ||
      other.ttl < asked.ttl ||
      this.#from(other) < this.#from(asked)
    const covered = this.#asked.some(
      (other) =>
        other !== asked && other.failed && other.ttl <= asked.ttl && this.#from(other) <= this.#from(asked),
    )
    this.#asked = covered ? this.#asked.filter((other) => other !== asked) : this.#asked.filter(least)
  }

  #from({ sent }: Asked): number {
    return Math.max(this.#proven, sent)
  }

  #count(): void {
    let until = Number.POSITIVE_INFINITY
    for (const asked of this.#asked) until = Math.min(until, deadline(this.#from(asked), asked.ttl))
    this.until = until
  }
}
