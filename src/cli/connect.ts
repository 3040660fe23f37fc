/**
 * Turns a URL (`--on`, `HOLDFAST_URL`) into a driver. Only this file maps schemes to stores. Drivers and client packages load when their
 * URL is used, so that `holdfast run` starts fast and works without the others.
 */
import type { DriverFactory } from 'holdfast'
import { consulTarget } from './connect-consul.js'
import { etcdTarget } from './connect-etcd.js'
import { connectMysql, parseMysqlAddress } from './connect-mysql.js'
import { connectPostgres, parsePostgresAddress } from './connect-postgres.js'
import { connectRedis } from './connect-redis.js'
import { connectZookeeper, parseZookeeperAddress } from './connect-zookeeper.js'
import { badInput } from './exit.js'
import type { Endpoints } from './knock.js'
import { didYouMean } from './nearest.js'
import { parseRedisAddress } from './redis-place.js'
import { type Chosen, naming, storeUrl } from './store-url.js'
import { acceptAnyCertificate, type Keys, readKeys } from './tls.js'
import type { TlsOptions } from './tls-options.js'
import { displayUrl, parseHosts } from './url.js'

export interface StoreTarget extends Endpoints, Chosen, Pick<Opening, 'connect' | 'startsTls'> {}

export interface Connection {
  readonly driver: DriverFactory
  /** The client's latest error, for messages. */
  readonly lastError?: () => string | undefined
  /** Closes the client, if one was created for this URL. Call it after `locks.close()`. */
  readonly close: () => Promise<void>
}

const nothing = async () => undefined

export interface Opening {
  /** Loads the driver; no I/O to the store yet. */
  readonly connect: () => Promise<Connection>
  /** The servers speak TLS from the first byte. */
  readonly tls?: Keys | undefined
  /** TLS after a first exchange without it. */
  readonly startsTls?: boolean
}

/** Parses what follows the scheme, without I/O. `shown` is the URL without its password. */
type Scheme = (rest: string, shown: string) => Opening

const redis =
  (scheme: string): Scheme =>
  (rest, shown) => {
    const address = parseRedisAddress(scheme, rest, shown)
    return { connect: () => connectRedis(address), tls: address.tls && readKeys(address.tls) }
  }

const postgres: Scheme = (rest, shown) => {
  const address = parsePostgresAddress(rest, shown)
  return { connect: () => connectPostgres(address), startsTls: address.tls !== undefined }
}

const schemes: Readonly<Record<string, Scheme>> = {
  local: (rest) => {
    const directory = rest.replace(/^\/\/(?=\/)/, '')
    if (directory.startsWith('//'))
      throw badInput(`local: takes a directory of this machine, as in local:/run/locks, got 'local:${rest}'`)
    const connect = async () => {
      leaveRemovedDirectory()
      const { local } = await import('holdfast/local')
      return { driver: local(directory === '' ? {} : { directory }), close: nothing }
    }
    return { connect }
  },
  memory: () => {
    throw badInput(
      'memory: locks live inside one process, so no command could see those of another; use local: (no server needed)',
    )
  },
  redis: redis('redis'),
  rediss: redis('rediss'),
  'redis+sentinel': redis('redis+sentinel'),
  'redis+cluster': redis('redis+cluster'),
  redlock: redis('redlock'),
  etcd: etcdTarget,
  zookeeper: (rest, shown) => {
    const address = parseZookeeperAddress(rest, shown)
    return { connect: () => connectZookeeper(address, shown), tls: address.tls }
  },
  consul: consulTarget,
  postgres,
  postgresql: postgres,
  mysql: (rest, shown) => {
    const address = parseMysqlAddress(rest, shown)
    return { connect: () => connectMysql(address), startsTls: address.tls !== undefined }
  },
}

/** Node starts no thread in a working directory that has been removed, and the broker is one. The command of a run stays where it is. */
function leaveRemovedDirectory(): void {
  try {
    process.cwd()
  } catch {
    process.chdir('/')
  }
}

/**
 * @param url from `--on`, or the name of a store; `undefined` or empty: the choice of {@link storeUrl}
 * @param tls options of the command; `insecure` holds for all connections of this process from now on
 * @throws CliError for a scheme that is unknown or makes no sense here.
 */
export function target(url: string | undefined, tls: TlsOptions = {}): StoreTarget {
  const chosen = storeUrl(url, tls)
  if (chosen.insecure) acceptAnyCertificate()
  const opened = naming(chosen.from, () => opening(chosen.url))
  if (chosen.insecure && opened.tls === undefined && opened.startsTls !== true) {
    throw badInput(
      `--insecure: '${opened.shown}' uses no TLS, so there is no certificate to accept; leave it out, or add ?tls=true to the URL`,
    )
  }
  return { ...opened, ...chosen }
}

function opening(whole: string): Omit<StoreTarget, keyof Chosen> {
  const [, scheme, rest = ''] = /^([a-z][a-z0-9+.-]*):(.*)$/is.exec(whole) ?? []
  if (scheme === undefined)
    throw badInput(
      `--on and HOLDFAST_URL take the URL of a store; known are ${known.join(', ')}; or the name of one in holdfast.json`,
    )
  const key = scheme.toLowerCase()
  const make = Object.hasOwn(schemes, key) ? schemes[key] : undefined
  if (make === undefined)
    throw badInput(
      `unknown scheme '${scheme}:'; known are ${known.join(', ')}${didYouMean(`${scheme}:`, known)}`,
    )
  const shown = displayUrl(scheme, rest)
  return { shown, tls: undefined, ...make(rest, shown), hosts: parseHosts(key, rest) }
}

/** The schemes a command can use. `memory:` is excluded: its locks live inside one process. */
export const known: readonly string[] = Object.keys(schemes)
  .filter((scheme) => scheme !== 'memory')
  .map((scheme) => `${scheme}:`)
