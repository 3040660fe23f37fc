/**
 * Redis URLs:
 *
 * ```
 * redis://[user:password@]host[:6379][/database]      rediss:// the same as ?tls=true
 * redis+sentinel://[user:password@]h1[:26379],h2,h3/name-of-the-master
 * redis+cluster://[user:password@]h1[:6379],h2
 * redlock://[user:password@]h1[:6379],h2,h3[/database]
 * ?prefix=hf:  &replicas=1  &quarantine=strict  &maxTtl=60000      (redlock: prefix and maxTtl)
 * ?tls=true  &ca=FILE  &cert=FILE  &key=FILE          for all of them, Sentinels included
 * ```
 * A password missing from the URL comes from `REDISCLI_AUTH`.
 */
import type { RedisClient, RedisOptions } from 'holdfast/redis'
import { badInput } from './exit.js'
import { parseTls, type Tls, tlsSettings } from './tls.js'
import {
  type Address,
  decoded,
  hostPort,
  type Login,
  parseAddresses,
  parseLogin,
  parseParts,
  parseSettings,
} from './url.js'
import { matching, oneOf, parseOptions, type UrlSettings, whole } from './url-settings.js'

export interface RedisAddress {
  readonly is: 'single' | 'sentinel' | 'cluster' | 'redlock'
  readonly hosts: readonly Address[]
  readonly tls: Tls | undefined
  readonly login: { readonly username?: string; readonly password?: string }
  readonly database: number
  /** Name of the master, as configured in the Sentinels. */
  readonly master: string
  readonly options: Pick<RedisOptions, 'prefix' | 'replicas' | 'quarantine' | 'maxTtl'>
}

export type Settings = RedisAddress['options']

/** The longest that the driver accepts, in ms. */
export const maxTtlInUrl = 9_999_999_999

/** Driver options a URL may contain. */
const settings: UrlSettings<Settings> = {
  prefix: matching(/^[^{}\s]+$/, 'a text without blanks, { and }'),
  replicas: whole(0, 99),
  quarantine: oneOf('detected', 'strict', 'off'),
  maxTtl: whole(1, maxTtlInUrl),
}

const kinds: Readonly<Record<string, RedisAddress['is']>> = {
  'redis+sentinel': 'sentinel',
  'redis+cluster': 'cluster',
  redlock: 'redlock',
}

/** @throws CliError; `shown` is the URL without its password. */
export function parseRedisAddress(scheme: string, rest: string, shown: string): RedisAddress {
  const is = kinds[scheme] ?? 'single'
  const parts = parseParts(scheme, rest, `${scheme}://host:${is === 'sentinel' ? 26_379 : 6379}`)
  const own = is === 'redlock' ? ['prefix', 'maxTtl'] : Object.keys(settings)
  const query = parseSettings(parts, [...own, ...tlsSettings], shown)
  const address = {
    is,
    hosts: parseAddresses(parts.hosts, is === 'sentinel' ? 26_379 : 6379, shown),
    tls: parseTls(query, shown, scheme === 'rediss' ? {} : undefined),
    login: redisLogin(parseLogin(parts, shown)),
    database: is === 'sentinel' ? 0 : parseDatabase(is, parts.path, shown),
    master: is === 'sentinel' ? decoded(parts.path, shown) : '',
    options: parseOptions(settings, query, shown),
  } as const
  checkHosts(address, shown)
  return address
}

function checkHosts({ is, hosts, master }: RedisAddress, shown: string): void {
  if (is === 'single' && hosts.length > 1) {
    throw badInput(`'${shown}' has several hosts; use redis+sentinel:, redis+cluster: or redlock: for them`)
  }
  const distinct = new Set(hosts.map(hostPort)).size
  if (is === 'redlock' && (distinct < 3 || distinct < hosts.length)) {
    throw badInput(`'${shown}' needs at least 3 servers, each once; for one server use redis:`)
  }
  if (is === 'sentinel' && master === '') {
    throw badInput(
      `'${shown}' needs the name of the master after the hosts, as in redis+sentinel://h1,h2/mymaster`,
    )
  }
}

function redisLogin({
  user,
  password = process.env['REDISCLI_AUTH'] || undefined,
}: Login): RedisAddress['login'] {
  return {
    ...(user !== undefined && { username: user }),
    ...(password !== undefined && { password }),
  }
}

function parseDatabase(is: RedisAddress['is'], path: string, shown: string): number {
  if (path === '') return 0
  if (!/^\d{1,9}$/.test(path)) {
    throw badInput(
      `'${shown}' has the database '${path}' after the host; it must be a whole number, as in redis://host/3`,
    )
  }
  if (is === 'cluster' && Number(path) !== 0)
    throw badInput(`'${shown}' has the database ${path}, but a Cluster has only 0; leave out /${path}`)
  return Number(path)
}

export interface Opened {
  readonly client: RedisClient
  readonly close: () => Promise<void>
}

/** The driver retries as long as there is time; retries by the client, too, would only delay the reply. */
export const maxRetries = 2
