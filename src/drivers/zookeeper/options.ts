/** What `zookeeper()` takes, checked once. */
import { describe } from '../../core/name.js'
import type { TlsOptions } from '../kit/http.js'
import type { AclEntry } from './session/protocol.js'

export interface Address {
  readonly host: string
  readonly port: number
}

/** How a process proves to the server who it is. */
export interface ZookeeperLogin {
  /** `digest` for a user and a password; others as the server was set up. */
  readonly scheme: string
  /** For `digest`: `user:password`. */
  readonly credential: string
}

/** Who may do what with the nodes of the locks. */
export interface ZookeeperAcl {
  readonly scheme: string
  readonly id: string
  /** Letters of `cdrwa`: create, delete, read, write, admin. Locks need all but the last. */
  readonly permissions: string
}

export interface ZookeeperOptions {
  /** Every server of the ensemble: `'zk1:2181,zk2:2181'` or a list. Port 2181 unless said. */
  readonly servers: string | readonly string[]
  /** Encrypted connections, to the servers' `secureClientPort`: keys and certificates, `{}` for those the system trusts. Default: plain. */
  readonly tls?: TlsOptions
  /** The node below which the locks are, one child a name; made when it is missing. Default `/holdfast`. */
  readonly chroot?: string
  /** Logins, sent on every connection. */
  readonly auth?: ZookeeperLogin | readonly ZookeeperLogin[]
  /** Of all nodes made: `open` (default) for everybody, `creator` for who logged in with the same login, or a list. */
  readonly acl?: 'open' | 'creator' | readonly ZookeeperAcl[]
  /**
   * For how long the locks of a process that falls silent are kept, in ms. The server may grant another: by default from 2 to
   * 20 of its ticks. A shorter `ttl` ends leases earlier here, not there. Default 10_000.
   */
  readonly sessionTimeout?: number
  /** `tickTime` of the servers in ms, taken off what is claimed of a session (at most a third). Default 2_000, as theirs. */
  readonly tickTime?: number
  /**
   * Whose names our nodes bear, so that these see us without being told: `curator` (default) or `kazoo`. We see both
   * in either case.
   */
  readonly names?: 'curator' | 'kazoo'
  /**
   * `line` (default): a place in line for everybody, each watching the one before. `simple`: one ephemeral node that all watch,
   * the textbook's herd, which costs a request of every waiter for each release; mutexes only, in no order.
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

/** @throws TypeError, RangeError with the value got */
export function settingsOf(options: ZookeeperOptions): Settings {
  if (typeof options !== 'object' || options === null) {
    throw new TypeError(`zookeeper() takes options such as { servers: 'zk1:2181' }, got ${describe(options)}`)
  }
  const auth = listOf(options.auth ?? []).map(checkLogin)
  return {
    servers: serversOf(options.servers),
    tls: tlsOf(options.tls),
    chroot: chrootOf(options.chroot ?? '/holdfast'),
    auth,
    acl: aclOf(options.acl ?? 'open', auth),
    sessionTimeout: whole('sessionTimeout', options.sessionTimeout ?? 10_000, 200, 600_000),
    tickTime: whole('tickTime', options.tickTime ?? 2_000, 10, 60_000),
    names: oneOf('names', options.names ?? 'curator', ['curator', 'kazoo']),
    strategy: oneOf('strategy', options.strategy ?? 'line', ['line', 'simple']),
  }
}

function tlsOf(tls: unknown): TlsOptions | undefined {
  if (tls === undefined || (typeof tls === 'object' && tls !== null)) return tls
  throw new TypeError(`zookeeper: tls must be an object such as { ca }, got ${describe(tls)}`)
}

function serversOf(value: unknown): readonly Address[] {
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

function chrootOf(value: unknown): string {
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

/** What ZooKeeper takes in no path. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
const forbidden = /[\u0000-\u001f\u007f-\u009f\ud800-\uf8ff\ufff0-\uffff]/

function checkLogin(login: unknown): ZookeeperLogin {
  const { scheme, credential } = (login ?? {}) as Partial<ZookeeperLogin>
  if (typeof scheme !== 'string' || scheme === '' || typeof credential !== 'string') {
    // The credential is a secret: it is not shown.
    throw new TypeError(
      `zookeeper: auth must be { scheme: 'digest', credential: 'user:password' } or a list of those, got scheme ${describe(scheme)} and a credential of type ${typeof credential}`,
    )
  }
  return { scheme, credential }
}

const everything = 31
const letters: Readonly<Record<string, number>> = { r: 1, w: 2, c: 4, d: 8, a: 16 }

function aclOf(value: ZookeeperOptions['acl'], auth: readonly ZookeeperLogin[]): readonly AclEntry[] {
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

function listOf<T>(value: T | readonly T[]): readonly T[] {
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

function oneOf<T extends string>(name: string, value: T, all: readonly T[]): T {
  if (!all.includes(value)) {
    throw new RangeError(`zookeeper: ${name} must be one of ${all.join(', ')}, got ${describe(value)}`)
  }
  return value
}
