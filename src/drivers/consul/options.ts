/** The options of `consul()`, checked once. */
import { checkKnown } from '../../core/known-options.js'
import { describe } from '../../core/name.js'
import type { TlsOptions } from '../kit/http.js'

export interface ConsulOptions {
  /** The agent: `http://127.0.0.1:8500`, `https://…`, or `127.0.0.1` (port 8500). Of several, one is used at a time; when it fails, the next. */
  readonly url: string | readonly string[]
  /** ACL token. It needs `session:write` for the agent's node and `key:write` for everything under `prefix`. */
  readonly token?: string
  /** Default: the agent's own. All users of a lock must use the same datacenter. */
  readonly datacenter?: string
  /** Keys and certificates for `https://`. */
  readonly tls?: TlsOptions
  /**
   * The prefix of every key. Default `holdfast/`: the mutex `a` is then the lock `holdfast/a` of `consul lock`. With `''` the names are
   * identical.
   */
  readonly prefix?: string
  /**
   * Consul's own lock-delay: how long a mutex stays unavailable after its holder's session ends, in ms, even when an operator destroys it.
   * Up to 60_000. Default 0. Only the leader keeps it: a leader change ends it. The `lockDelay` of `acquire` does not depend on the leader.
   */
  readonly lockDelay?: number
  /** The least ttl that the servers accept, in ms: `session_ttl_min` in their configuration. Default 10_000, which is also Consul's. */
  readonly minTtl?: number
  /** `process` (default): one session for all locks of the same ttl in this process. `lock`: one session per lock, for two more requests. */
  readonly session?: 'process' | 'lock'
  /** How long one agent may take to answer, in ms. Default 2_000. After temporary trouble the request is retried while the wait lasts. */
  readonly requestTimeout?: number
}

export interface Settings {
  readonly urls: readonly URL[]
  readonly token: string | undefined
  readonly datacenter: string | undefined
  readonly tls: TlsOptions | undefined
  readonly prefix: string
  readonly lockDelay: number
  readonly minTtl: number
  readonly ownSessions: boolean
  readonly requestTimeout: number
}

const known: readonly (keyof ConsulOptions)[] = [
  'url',
  'token',
  'datacenter',
  'tls',
  'prefix',
  'lockDelay',
  'minTtl',
  'session',
  'requestTimeout',
]

/** @throws TypeError, RangeError that names the value given */
export function parseOptions(options: ConsulOptions): Settings {
  if (typeof options !== 'object' || options === null) {
    throw new TypeError(`consul() takes options such as { url: '127.0.0.1:8500' }, got ${describe(options)}`)
  }
  checkKnown('consul()', options, known)
  const { url, token, datacenter, tls, prefix = 'holdfast/', session = 'process' } = options
  const given = typeof url === 'string' ? [url] : url
  if (!Array.isArray(given) || given.length === 0) {
    throw new TypeError(`consul: url must be an agent's address or a list of them, got ${describe(url)}`)
  }
  for (const [name, value] of Object.entries({ token, datacenter })) {
    if (value !== undefined && (typeof value !== 'string' || value === '')) {
      throw new TypeError(`consul: ${name} must be a string, got ${describe(value)}`)
    }
  }
  if (typeof prefix !== 'string' || /^\/|(^|\/)\.{1,2}(\/|$)|\/\//.test(prefix)) {
    throw new RangeError(
      `consul: prefix must be a path without a leading slash and empty or dotted parts, got ${describe(prefix)}`,
    )
  }
  if (session !== 'process' && session !== 'lock') {
    throw new RangeError(`consul: session must be 'process' or 'lock', got ${describe(session)}`)
  }
  return {
    urls: given.map(parseUrl),
    token,
    datacenter,
    tls,
    prefix,
    lockDelay: whole('lockDelay', options.lockDelay ?? 0, 0, 60_000),
    minTtl: whole('minTtl', options.minTtl ?? 10_000, 100, maxTtl),
    ownSessions: session === 'lock',
    requestTimeout: whole('requestTimeout', options.requestTimeout ?? 2_000, 10, 600_000),
  }
}

/** The longest ttl of a session: one day, in ms. */
export const maxTtl = 86_400_000

function parseUrl(text: unknown): URL {
  if (typeof text !== 'string')
    throw new TypeError(`consul: an address must be a string, got ${describe(text)}`)
  const whole = /^[a-z][a-z0-9+.-]*:\/\//i.test(text) ? text : `http://${text}`
  const url = URL.canParse(whole) ? new URL(whole) : undefined
  if (url === undefined || (url.protocol !== 'http:' && url.protocol !== 'https:') || url.hostname === '') {
    throw new RangeError(`consul: ${describe(text)} is not an address; write host:8500 or https://host:8501`)
  }
  if (url.username !== '' || url.password !== '') {
    throw new RangeError(
      'consul: an address must not contain a user; Consul has tokens, pass one as the option token',
    )
  }
  // `URL` drops the default port of a scheme, which is not Consul's.
  if (url.port === '' && !/:\d+\/?$/.test(whole)) url.port = url.protocol === 'https:' ? '8501' : '8500'
  return url
}

function whole(name: string, value: unknown, least: number, most: number): number {
  if (typeof value !== 'number')
    throw new TypeError(`consul: ${name} must be a number, got ${describe(value)}`)
  if (!Number.isInteger(value) || value < least || value > most) {
    throw new RangeError(`consul: ${name} must be a whole number from ${least} to ${most} ms, got ${value}`)
  }
  return value
}
