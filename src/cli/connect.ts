/**
 * Turns a URL (`--on`, `HOLDFAST_URL`) into a driver: the only place that knows which scheme is which store. Drivers and client
 * packages are loaded when their URL is used, so that `holdfast run` starts fast and works without them.
 */
import type { DriverFactory } from 'holdfast'
import { consulTarget } from './connect-consul.js'
import { etcdTarget } from './connect-etcd.js'
import { connectMysql, mysqlPlace } from './connect-mysql.js'
import { connectPostgres, postgresPlace } from './connect-postgres.js'
import { connectRedis, redisPlace } from './connect-redis.js'
import { connectZookeeper, zookeeperPlace } from './connect-zookeeper.js'
import { badInput, CliError, exits } from './exit.js'
import { plain } from './print.js'

export interface Target {
  /** The URL without its password, for messages and output. */
  readonly shown: string
  /** Loads the driver; no I/O to the store yet. */
  readonly connect: () => Promise<Connection>
}

export interface Connection {
  readonly driver: DriverFactory
  /** What the client last complained of, for messages. */
  readonly trouble?: () => string | undefined
  /** Closes the client, if one was made for this URL. Call it after `locks.close()`. */
  readonly close: () => Promise<void>
}

const nothing = async () => undefined

/** Reads what follows the scheme, without I/O. `shown` is the URL without its password. */
type Scheme = (rest: string, shown: string) => Target['connect']

const redis =
  (scheme: string): Scheme =>
  (rest, shown) => {
    const place = redisPlace(scheme, rest, shown)
    return () => connectRedis(place)
  }

const postgres: Scheme = (rest, shown) => {
  const place = postgresPlace(rest, shown)
  return () => connectPostgres(place)
}

const schemes: Readonly<Record<string, Scheme>> = {
  local: (rest) => {
    const directory = rest.replace(/^\/\/(?=\/)/, '')
    if (directory.startsWith('//'))
      throw badInput(`local: takes a directory of this machine, as in local:/run/locks, got 'local:${rest}'`)
    return async () => {
      const { local } = await import('holdfast/local')
      return { driver: local(directory === '' ? {} : { directory }), close: nothing }
    }
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
    const place = zookeeperPlace(rest, shown)
    return () => connectZookeeper(place, shown)
  },
  consul: consulTarget,
  postgres,
  postgresql: postgres,
  mysql: (rest, shown) => {
    const place = mysqlPlace(rest, shown)
    return () => connectMysql(place)
  },
}

/**
 * @param url from `--on` or `HOLDFAST_URL`; `undefined` or empty is `local:`.
 * @throws CliError for an unknown scheme, or one that makes no sense here.
 */
export function target(url: string | undefined): Target {
  const whole = url === undefined || url === '' ? 'local:' : url
  const [, scheme, rest = ''] = /^([a-z][a-z0-9+.-]*):(.*)$/is.exec(whole) ?? []
  const shown = withoutPassword(whole)
  if (scheme === undefined) throw badInput(`'${shown}' is no URL of a store; known are ${known()}`)
  const key = scheme.toLowerCase()
  const make = Object.hasOwn(schemes, key) ? schemes[key] : undefined
  if (make === undefined) {
    throw badInput(`unknown scheme '${scheme}:' in '${shown}'; known are ${known()}`)
  }
  return { shown, connect: make(rest, shown) }
}

const known = () => `${Object.keys(schemes).join(':, ')}:`

/** An error of the store, with where it is and what its client says. */
export function explained(error: unknown, { shown }: Target, connection: Connection): unknown {
  if ((error as { code?: unknown } | null)?.code !== 'BACKEND') return error
  const trouble = connection.trouble?.()
  const why = trouble === undefined ? '' : `: ${plain(trouble)}`
  return new CliError(exits.unavailable, `${plain((error as Error).message)} (${shown}${why})`, {
    cause: error,
  })
}

/** Passwords stay out of messages, JSON and process lists. */
export function withoutPassword(url: string): string {
  return url.replace(/(:\/\/[^/?#@]*?):[^/?#]*@/, '$1:***@')
}
