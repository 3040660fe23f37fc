/**
 * The options of `zookeeper()`, checked once.
 *
 * Long because it is a list of options and their checks.
 */
import { checkKnown } from '../../core/known-options.js'
import { describe } from '../../core/name.js'
import type { TlsOptions } from '../kit/http.js'
import { minTicks } from './session/heartbeat-timing.js'
import type { AclEntry } from './session/protocol.js'

export interface Address {
  readonly host: string
  readonly port: number
}

/** How a process authenticates to the server. */
export interface ZookeeperLogin {
  /** `digest` for user and password; other schemes as configured on the server. */
  readonly scheme: string
  /** For `digest`: `user:password`. */
  readonly credential: string
}

/** Permissions on the nodes of the locks. */
export interface ZookeeperAcl {
  readonly scheme: string
  readonly id: string
  /** Letters of `cdrwa`: create, delete, read, write, admin. Locks need all but the last. */
  readonly permissions: string
}

export interface ZookeeperOptions {
  /** Every server of the ensemble: `'zk1:2181,zk2:2181'` or a list. The default port is 2181. */
  readonly servers: string | readonly string[]
  /** TLS to the servers' `secureClientPort`: keys and certificates; `{}` trusts the system's certificates. Default: no TLS. */
  readonly tls?: TlsOptions
  /** The parent node of all locks, with one child per lock name. Created when missing. Default `/holdfast`. */
  readonly chroot?: string
  /** Logins, sent on every connection. */
  readonly auth?: ZookeeperLogin | readonly ZookeeperLogin[]
  /** The ACL of all nodes created: `open` (default) for everybody, `creator` for clients with the same login, or a list. */
  readonly acl?: 'open' | 'creator' | readonly ZookeeperAcl[]
  /**
   * How long the servers keep the locks of a silent process, in ms; at least 3 ticks. The server may grant another value: by default
   * from 2 to 20 of its ticks. This timeout bounds `lease.ttl`. A shorter `ttl` ends leases earlier on the client, not on the server.
   * Default 15_000.
   */
  readonly sessionTimeout?: number
  /**
   * `tickTime` of the servers, in ms. The protocol does not report it. If the servers' tick is longer than this value, two clients may hold one
   * lock; if it is shorter, leases are shorter than they could be. Default 3_000, as on a server without configuration.
   */
  readonly tickTime?: number
  /**
   * The naming scheme of our nodes: `curator` (default) or `kazoo`. That client then recognises our nodes without configuration. We recognise
   * both in either case.
   */
  readonly names?: 'curator' | 'kazoo'
  /**
   * `line` (default): a FIFO queue in which each waiter watches its predecessor. `simple`: one ephemeral node that all waiters watch,
   * the textbook's herd. Each release costs one request from every waiter; mutexes only, in no order.
   */
  readonly strategy?: 'line' | 'simple'
}

export interface Settings {
  readonly servers: readonly Address[]
  readonly tls: TlsOptions | undefined
  /** Empty for the root itself. */
  readonly chroot: string
  readonly auth: readonly ZookeeperLogin[]
  readonly acl: readonly AclEntry[]
  readonly sessionTimeout: number
  readonly tickTime: number
  readonly names: 'curator' | 'kazoo'
  readonly strategy: 'line' | 'simple'
}

/** Defaults of {@link ZookeeperOptions}. */
export const defaults = { sessionTimeout: 15_000, tickTime: 3_000 } as const

const known: readonly (keyof ZookeeperOptions)[] = [
  'servers',
  'tls',
  'chroot',
  'auth',
  'acl',
  'sessionTimeout',
  'tickTime',
  'names',
  'strategy',
]

/** @throws TypeError, RangeError that names the value given */
export function parseOptions(options: ZookeeperOptions): Settings {
  if (typeof options !== 'object' || options === null) {
    throw new TypeError(`zookeeper() takes options such as { servers: 'zk1:2181' }, got ${describe(options)}`)
  }
  const auth = toList(options.auth ?? []).map(checkLogin)
  const tickTime = whole('tickTime', options.tickTime ?? defaults.tickTime, 10, 60_000)
  const sessionTimeout = whole(
    'sessionTimeout',
    options.sessionTimeout ?? defaults.sessionTimeout,
    200,
    600_000,
  )
  const least = minTicks * tickTime
  if (sessionTimeout < least) {
    throw new RangeError(
      `zookeeper: sessionTimeout must be at least ${minTicks} ticks of the servers, ${least} ms with tickTime ${tickTime}, got ${sessionTimeout}; set tickTime to theirs if that is shorter`,
    )
  }
  checkKnown('zookeeper()', options, known)
  return {
    servers: parseServers(options.servers),
    tls: parseTls(options.tls),
    chroot: parseChroot(options.chroot ?? '/holdfast'),
    auth,
    acl: parseAcl(options.acl ?? 'open', auth),
    sessionTimeout,
    tickTime,
    names: parseChoice('names', options.names ?? 'curator', ['curator', 'kazoo']),
    strategy: parseChoice('strategy', options.strategy ?? 'line', ['line', 'simple']),
  }
}

function parseTls(tls: unknown): TlsOptions | undefined {
  if (tls === undefined || (typeof tls === 'object' && tls !== null)) return tls
  throw new TypeError(`zookeeper: tls must be an object such as { ca }, got ${describe(tls)}`)
}

function parseServers(value: unknown): readonly Address[] {
  const all: readonly unknown[] =
    typeof value === 'string' ? value.split(',') : Array.isArray(value) ? value : []
  if (all.length === 0) {
    throw new TypeError(
      `zookeeper: servers must be 'host:port,host:port' or a list of those, got ${describe(value)}`,
    )
  }
  return all.map((one) => {
    const [, six, host = six, port = '2181'] =
      /^(?:\[([0-9a-f:.]+)\]|([^\s:/[\]]+))(?::(\d{1,5}))?$/i.exec(String(one).trim()) ?? []
    if (host === undefined || Number(port) < 1 || Number(port) > 65_535) {
      throw new RangeError(
        `zookeeper: a server must be host:port, with a port up to 65535, got ${describe(one)}`,
      )
    }
    return { host, port: Number(port) }
  })
}

function parseChroot(value: unknown): string {
  if (typeof value !== 'string')
    throw new TypeError(`zookeeper: chroot must be a path such as '/holdfast', got ${describe(value)}`)
  if (value === '/') return ''
  const parts = value.split('/').slice(1)
  const wrong = (part: string) => part === '' || part === '.' || part === '..' || forbidden.test(part)
  if (!value.startsWith('/') || parts.some(wrong) || parts[0] === 'zookeeper') {
    throw new RangeError(
      `zookeeper: chroot must be an absolute path without '.', '..', empty parts, control characters and characters beyond U+D7FF, outside /zookeeper, got ${describe(value)}`,
    )
  }
  return value
}

/** Characters that ZooKeeper refuses in a path. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: the expression looks for exactly these
const forbidden = /[\u0000-\u001f\u007f-\u009f\ud800-\uf8ff\ufff0-\uffff]/

function checkLogin(login: unknown): ZookeeperLogin {
  const { scheme, credential } = (login ?? {}) as Partial<ZookeeperLogin>
  if (typeof scheme !== 'string' || scheme === '' || typeof credential !== 'string') {
    // The credential is a secret: the message does not show it.
    throw new TypeError(
      `zookeeper: auth must be { scheme: 'digest', credential: 'user:password' } or a list of those, got scheme ${describe(scheme)} and a credential of type ${typeof credential}`,
    )
  }
  return { scheme, credential }
}

const everything = 31
const letters: Readonly<Record<string, number>> = { r: 1, w: 2, c: 4, d: 8, a: 16 }

function parseAcl(value: ZookeeperOptions['acl'], auth: readonly ZookeeperLogin[]): readonly AclEntry[] {
  if (value === 'open') return [{ permissions: everything, scheme: 'world', id: 'anyone' }]
  if (value === 'creator') {
    if (auth.length === 0)
      throw new RangeError(`zookeeper: acl 'creator' needs a login; give auth: { scheme, credential }`)
    return [{ permissions: everything, scheme: 'auth', id: '' }]
  }
  if (!Array.isArray(value) || value.length === 0) {
    throw new TypeError(
      `zookeeper: acl must be 'open', 'creator' or a list of { scheme, id, permissions }, got ${describe(value)}`,
    )
  }
  return value.map((entry: Partial<ZookeeperAcl> | null) => {
    const { scheme, id, permissions } = entry ?? {}
    if (
      typeof scheme !== 'string' ||
      typeof id !== 'string' ||
      typeof permissions !== 'string' ||
      !/^[cdrwa]+$/.test(permissions)
    ) {
      throw new TypeError(
        `zookeeper: an acl entry must be { scheme, id, permissions } with permissions of the letters cdrwa, got ${describe(JSON.stringify(entry))}`,
      )
    }
    const sum = [...new Set(permissions)].reduce((all, letter) => all + (letters[letter] ?? 0), 0)
    return { permissions: sum, scheme, id }
  })
}

function toList<T>(value: T | readonly T[]): readonly T[] {
  return Array.isArray(value) ? value : [value as T]
}

function whole(name: string, value: unknown, least: number, most: number): number {
  if (typeof value !== 'number')
    throw new TypeError(`zookeeper: ${name} must be a number, got ${describe(value)}`)
  if (!Number.isInteger(value) || value < least || value > most) {
    throw new RangeError(`zookeeper: ${name} must be a whole number from ${least} to ${most}, got ${value}`)
  }
  return value
}

function parseChoice<T extends string>(name: string, value: T, all: readonly T[]): T {
  if (!all.includes(value)) {
    throw new RangeError(`zookeeper: ${name} must be one of ${all.join(', ')}, got ${describe(value)}`)
  }
  return value
}
