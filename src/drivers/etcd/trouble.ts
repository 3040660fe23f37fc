/** What etcd said is wrong, and whether trying again can help. */
import { BackendError } from '../../core/errors.js'
import { NoAnswer } from '../kit/http.js'

/** Numbers of gRPC. */
const codes = {
  invalid: 3,
  notFound: 5,
  denied: 7,
  exhausted: 8,
  failed: 9,
  unknown: 2,
  internal: 13,
  unavailable: 14,
  unauthenticated: 16,
}

/** A definite answer that is none of those asked for. */
export class Refusal extends Error {
  readonly code: number
  constructor(code: number, message: string) {
    super(message)
    this.code = code
  }

  /** The lease has ended, and everything that was kept by it. */
  get noLease(): boolean {
    return this.code === codes.notFound && /lease not found/.test(this.message)
  }

  /** The token of the login has run out, or the rights were changed meanwhile. */
  get staleLogin(): boolean {
    return this.code === codes.unauthenticated || /auth (?:token|store)/.test(this.message)
  }

  /** Some time, or another member, may bring another answer. */
  get passing(): boolean {
    const { exhausted, unknown, internal, unavailable } = codes
    const may: readonly number[] = [unknown, 1, 4, exhausted, 10, internal, unavailable]
    return may.includes(this.code)
  }
}

/** Reads what came with a status other than 200. */
export function refusalOf(status: number, text: string): Refusal {
  const message =
    /"message":\s*"((?:[^"\\]|\\.)*)"/.exec(text)?.[1] ?? (text.trim().slice(0, 200) || `status ${status}`)
  const code = Number(
    /"code":\s*(\d+)/.exec(text)?.[1] ?? (status >= 500 ? codes.unavailable : codes.invalid),
  )
  if (status === 404 && !/lease/.test(message)) {
    return new Refusal(
      codes.invalid,
      `it has no /v3 gateway (${message}); etcd 3.4 or newer is needed, with --enable-grpc-gateway`,
    )
  }
  return new Refusal(code, message)
}

/** A leader has come or gone between two answers that must belong together. */
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
  const told = new BackendError('etcd', message, { cause: error })
  if (error instanceof NoAnswer) return { error: told, passing: true, doubtful: error.left }
  if (error instanceof Refusal) return { error: told, passing: error.passing, doubtful: error.passing }
  return { error: told, passing: error instanceof Unsure, doubtful: true }
}
