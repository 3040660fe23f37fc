/** What Consul said is wrong, and whether trying again can help. */
import { BackendError } from '../../core/errors.js'
import { NoAnswer } from '../kit/http.js'

/** A definite answer that is none of those asked for. */
export class Refusal extends Error {
  readonly status: number
  constructor(status: number, message: string) {
    super(message)
    this.status = status
  }

  /** The session has ended, and everything that was kept by it. */
  get noSession(): boolean {
    return /invalid session|session id .* not found/i.test(this.message)
  }

  /** Some time, or another server, may bring another answer. */
  get passing(): boolean {
    if (/Invalid Session TTL|unknown datacenter|No path to datacenter/i.test(this.message)) return false
    return this.status === 429 || this.status >= 500
  }
}

export function refusalOf(status: number, text: string): Refusal {
  const message = text.trim().slice(0, 300) || `status ${status}`
  if (/Invalid Session TTL/.test(message)) {
    return new Refusal(
      status,
      `${message}; use a longer ttl, or set session_ttl_min on the servers and minTtl here`,
    )
  }
  return new Refusal(status, message)
}

/** Two answers that must belong together did not. */
export class Unsure extends Error {}

export interface Trouble {
  readonly error: BackendError
  /** Worth trying again while there is time. */
  readonly passing: boolean
  /** It may have been carried out, or may yet be. */
  readonly doubtful: boolean
}

export function troubleOf(error: unknown): Trouble {
  if (error instanceof BackendError) return { error, passing: false, doubtful: false }
  const message = error instanceof Error ? error.message : String(error)
  const told = new BackendError('consul', message, { cause: error })
  if (error instanceof NoAnswer) return { error: told, passing: true, doubtful: error.left }
  if (error instanceof Refusal) return { error: told, passing: error.passing, doubtful: error.passing }
  return { error: told, passing: error instanceof Unsure, doubtful: true }
}
