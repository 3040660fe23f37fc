/** Finds the cause behind a client's error: no server, a wrong login, TLS, a server of another kind. */
import type { StoreTarget } from './connect.js'
import { CliError, exits, toExitCode } from './exit.js'
import { refusals, unreachable } from './knock.js'
import { OtherServer, otherServer, parseScheme, withoutTls } from './other-server.js'
import { brief, plain } from './print.js'
import { hostPort } from './url.js'

/** @throws CliError if every host refuses a connection */
export async function probe(store: StoreTarget): Promise<void> {
  const refused = await refusals(store)
  if (refused !== undefined) throw await refusalError(store, refused)
}

/** A handshake also fails where the server does not speak TLS, and its error does not say so clearly. */
async function refusalError(store: StoreTarget, refused: string, cause?: unknown): Promise<CliError> {
  const other = store.tls === undefined ? undefined : await otherServer(store)
  return other === undefined ? unreachable(store, refused, cause) : unusable(other, store, cause)
}

/**
 * Adds the store's address, and whatever is known beyond the client's message. Errors that the store did not cause are returned as they are.
 *
 * @param lastError the client's latest error
 */
export async function explain(
  error: unknown,
  store: StoreTarget,
  lastError?: () => string | undefined,
): Promise<unknown> {
  if (error instanceof OtherServer) return unusable(error.message, store)
  if (!(error instanceof Error) || toExitCode(error) !== exits.unavailable || error instanceof CliError)
    return error
  const refused = await refusals(store)
  if (refused !== undefined) return await refusalError(store, refused, error)
  const why = brief(error.message)
  if (isLogin(error)) return unusable(`the login was refused: ${why}; ${loginHint(store.url)}`, store, error)
  const [host] = store.hosts
  if (host !== undefined && refusesTls(error))
    return unusable(
      `${withoutTls(hostPort(host), parseScheme(store.url))} (the client says: ${why})`,
      store,
      error,
    )
  const other = await otherServer(store)
  if (other !== undefined) return unusable(`${other} (the client says: ${why})`, store, error)
  return unusable(plain(error.message), store, error, lastError?.())
}

export function unusable(why: string, { shown }: StoreTarget, cause?: unknown, lastError?: string): CliError {
  const more = lastError === undefined ? '' : `: ${plain(lastError)}`
  return new CliError(exits.unavailable, `${why} (${shown}${more})`, { cause })
}

/** Error messages of Redis, PostgreSQL (SQLSTATE class 28), MySQL, etcd and Consul. */
function isLogin(error: Error): boolean {
  const { code } = error as { code?: unknown }
  if (/^28|^ER_ACCESS_DENIED/.test(String(code))) return true
  if (/(?:NOAUTH|WRONGPASS) |the (?:login|token) was refused|client password must be/.test(error.message))
    return true
  return error.cause instanceof Error && isLogin(error.cause)
}

/** Clients that ask the server for TLS before they log in: pg has only a message, mysql2 a code. */
function refusesTls(error: Error): boolean {
  const { code } = error as { code?: unknown }
  if (code === 'HANDSHAKE_NO_SSL_SUPPORT' || error.message === 'The server does not support SSL connections')
    return true
  return error.cause instanceof Error && refusesTls(error.cause)
}

const variables: Readonly<Record<string, string>> = {
  postgres: 'PGPASSWORD',
  postgresql: 'PGPASSWORD',
  mysql: 'MYSQL_PWD',
  etcd: 'ETCDCTL_USER and ETCDCTL_PASSWORD',
  consul: 'CONSUL_HTTP_TOKEN',
}

/** Says also that the password is from a variable: it may be one that was meant for another server. */
function loginHint(url: string): string {
  const scheme = parseScheme(url)
  const form = scheme === 'consul' ? ':token@' : 'user:password@'
  const names = variables[scheme] ?? 'REDISCLI_AUTH'
  const hasOwn = /^[^/]*\/\/[^/?#@]*:[^/?#@]*@/.test(url)
  const used = hasOwn ? undefined : names.split(' and ').find((name) => process.env[name])
  if (used === undefined) return `give ${form} before the host, or ${names}`
  return `it is that of the variable ${used}; correct it there, or give ${form} before the host`
}
