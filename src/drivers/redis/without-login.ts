/**
 * The errors of ioredis have the command that failed, with its arguments: of AUTH and HELLO, the password. Node prints all of that for an error
 * that nobody catches, and so do most loggers.
 */

interface ClientError extends Error {
  readonly command?: { readonly name?: unknown }
  /** Of a Cluster that could not be reached. */
  readonly lastNodeError?: unknown
}

/** The error, or one that says the same without the command in which the client logged in. */
export function withoutLogin<E>(error: E): E {
  if (!(error instanceof Error)) return error
  const { command, lastNodeError, cause } = error as ClientError
  const inner = {
    ...(lastNodeError !== undefined && { lastNodeError: withoutLogin(lastNodeError) }),
    ...(cause !== undefined && { cause: withoutLogin(cause) }),
  }
  const isLogin = /^(auth|hello)$/i.test(String(command?.name))
  if (!isLogin && inner.lastNodeError === lastNodeError && inner.cause === cause) return error
  const copy = new Error(error.message)
  const { name, stack } = error
  for (const [key, value] of Object.entries({ name, stack })) Object.defineProperty(copy, key, { value })
  return Object.assign(copy, error, inner, isLogin && { command: undefined }) as E & Error
}
