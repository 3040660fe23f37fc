/** The errors of etcd, and whether a retry can help. */
import { type Failure, failureClassifier, ServerRefusal } from '../kit/failure.js'

/** Status codes of gRPC. */
export const codes = {
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

/** The words of a refusal that a new login helps against. */
export const staleLogin: RegExp = /auth (?:token|store)/

export class Refusal extends ServerRefusal {
  readonly code: number
  constructor(code: number, message: string) {
    super(message)
    this.code = code
  }

  /** The lease has ended, and with it every key that it kept. */
  get noSession(): boolean {
    return this.code === codes.notFound && /lease not found/.test(this.message)
  }

  /** The login token has expired, or permissions were changed meanwhile. */
  get staleLogin(): boolean {
    return this.code === codes.unauthenticated || staleLogin.test(this.message)
  }

  /** A later try, or another member, may give another answer. */
  get transient(): boolean {
    const { exhausted, unknown, internal, unavailable } = codes
    const may: readonly number[] = [unknown, 1, 4, exhausted, 10, internal, unavailable]
    return may.includes(this.code)
  }
}

/** Parses an answer with a status other than 200. */
export function parseRefusal(status: number, text: string): Refusal {
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

export const toFailure: (error: unknown) => Failure = failureClassifier('etcd')
