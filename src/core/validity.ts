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
export interface SentRenewal {
  readonly sent: number
  readonly ttl: number
  /** How many renewals were sent before it. */
  readonly order: number
  /** How many had been sent when its reply came; undefined: there is none yet. */
  answered?: number
  /** It will never be answered, but the store may have carried it out, or may yet do so. */
  failed?: true
}

export class Validity {
  /** Clock reading; Infinity until the first renewal: only the grant's own value counts then. */
  until: number = Number.POSITIVE_INFINITY
  #sentCount = 0
  /** When the newest answered renewal was sent. */
  #newestAnswered = Number.NEGATIVE_INFINITY
  /** Any of these may be the last that the store carried out. */
  #pending: SentRenewal[] = []

  sent(sent: number, ttl: number): SentRenewal {
    const renewal = { sent, ttl, order: this.#sentCount++ }
    this.#pending.push(renewal)
    this.#recompute()
    return renewal
  }

  /** The store has carried it out. */
  answered(renewal: SentRenewal): void {
    renewal.answered = this.#sentCount
    this.#newestAnswered = Math.max(this.#newestAnswered, renewal.sent)
    this.#pending = this.#pending.filter(({ answered }) => answered === undefined || answered > renewal.order)
    this.#recompute()
  }

  /** It was never sent, and never will be. */
  refused(renewal: SentRenewal): void {
    this.#pending = this.#pending.filter((other) => other !== renewal)
    this.#recompute()
  }

  /** It will never be answered. */
  failed(renewal: SentRenewal): void {
    renewal.failed = true
    const least = (other: SentRenewal) =>
      other === renewal ||
      other.failed !== true ||
      other.ttl < renewal.ttl ||
      this.#from(other) < this.#from(renewal)
    const covered = this.#pending.some(
      (other) =>
        other !== renewal &&
        other.failed &&
        other.ttl <= renewal.ttl &&
        this.#from(other) <= this.#from(renewal),
    )
    this.#pending = covered ? this.#pending.filter((other) => other !== renewal) : this.#pending.filter(least)
  }

  /** The shortest ttl that the store may have carried out last, or may yet carry out; Infinity until the first renewal. */
  get leastTtl(): number {
    return Math.min(Number.POSITIVE_INFINITY, ...this.#pending.map(({ ttl }) => ttl))
  }

  #from({ sent }: SentRenewal): number {
    return Math.max(this.#newestAnswered, sent)
  }

  #recompute(): void {
    let until = Number.POSITIVE_INFINITY
    for (const renewal of this.#pending) until = Math.min(until, deadline(this.#from(renewal), renewal.ttl))
    this.until = until
  }
}
