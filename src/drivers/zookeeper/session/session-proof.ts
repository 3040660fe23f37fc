/**
 * What the answers of one session prove. Why an answer does not prove that the leader knows of the message it answers is in
 * `heartbeat-timing.ts`.
 */
import { provenUntil, ReportedMessages, reportLag } from './heartbeat-timing.js'

export class SessionProof {
  readonly #lag: number
  readonly #messages: ReportedMessages
  /** The time at which the newest message that was certainly reported to the leader was sent. */
  #reported = Number.NEGATIVE_INFINITY
  /** The time at which the newest message that the leader answered was sent. */
  #answered = Number.NEGATIVE_INFINITY

  constructor(tickTime: number) {
    this.#lag = reportLag(tickTime)
    this.#messages = new ReportedMessages(this.#lag)
  }

  /** When the newest message that the leader answered was sent. */
  get newestAnswered(): number {
    return this.#answered
  }

  validUntil(timeout: number): number {
    return provenUntil(this.#reported, timeout)
  }

  /**
   * A server has accepted the session, asked at `sent`. A majority creates a new session. A session that moves is checked with the
   * leader, which may have lost its majority since.
   */
  accepted(sent: number, now: number, moved: boolean): void {
    this.#messages.clear()
    this.#messages.answered(sent, now)
    this.#reported = moved ? Math.max(this.#reported, sent - this.#lag) : sent
  }

  /** The leader has answered the message sent at `sent`. */
  answeredByLeader(sent: number): void {
    this.#reported = Math.max(this.#reported, this.#messages.upTo(sent))
    this.#answered = Math.max(this.#answered, sent)
  }

  /** Any server has answered the message sent at `sent`. */
  answered(sent: number, now: number): void {
    this.#messages.answered(sent, now)
  }

  /** The session has ended. */
  clear(): void {
    this.#reported = Number.NEGATIVE_INFINITY
    this.#answered = Number.NEGATIVE_INFINITY
  }
}
