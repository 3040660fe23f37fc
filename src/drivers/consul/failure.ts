/** The errors of Consul, and whether a retry can help. */
import { type Failure, failureClassifier, ServerRefusal } from '../kit/failure.js'

export class Refusal extends ServerRefusal {
  readonly status: number
  constructor(status: number, message: string) {
    super(message)
    this.status = status
  }

  /** The session has ended, and with it every key that it kept. */
  get noSession(): boolean {
    return /invalid session|session id .* not found/i.test(this.message)
  }

  /** A later try, or another server, may give another answer. */
  get transient(): boolean {
    if (/Invalid Session TTL|unknown datacenter|No path to datacenter/i.test(this.message)) return false
    return this.status === 429 || this.status >= 500
  }
}

export function parseRefusal(status: number, text: string): Refusal {
  const message = text.trim().slice(0, 300) || `status ${status}`
  if (/Invalid Session TTL/.test(message)) {
    return new Refusal(
      status,
      `${message}; use a longer ttl, or set session_ttl_min on the servers and minTtl here`,
    )
  }
  return new Refusal(status, message)
}

export const toFailure: (error: unknown) => Failure = failureClassifier('consul')
