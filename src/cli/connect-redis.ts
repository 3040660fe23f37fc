/**
 * Long because both clients and all kinds of servers stand beside each other here.
 *
 * Redis URLs. Several hosts stand between commas, which WHATWG URLs do not know, so they are taken apart here:
 *
 * ```
 * redis://[user:password@]host[:6379][/database]      rediss:// the same over TLS
 * redis+sentinel://[user:password@]h1[:26379],h2,h3/name-of-the-master
 * redis+cluster://[user:password@]h1[:6379],h2
 * redlock://[user:password@]h1[:6379],h2,h3[/database]
 * ?prefix=hf:  &replicas=1  &quarantine=strict      (redlock: prefix only)
 * ```
 */
import type { DriverFactory } from 'holdfast'
import type { RedisClient, RedisOptions } from 'holdfast/redis'
import type { Connection } from './connect.js'
import { badInput, CliError, exits } from './exit.js'

export interface Address {
  readonly host: string
  readonly port: number
}

export interface RedisPlace {
  readonly is: 'single' | 'sentinel' | 'cluster' | 'redlock'
  readonly hosts: readonly Address[]
  readonly tls: boolean
  readonly login: { readonly username?: string; readonly password?: string }
  readonly database: number
  /** Of the master, as the Sentinels call it. */
  readonly master: string
  readonly options: Pick<RedisOptions, 'prefix' | 'replicas' | 'quarantine'>
}

export type Library = 'ioredis' | 'redis'

type Settings = RedisPlace['options']

/** What a URL may say of the driver's options. `undefined`: not in this form. */
const settings: Readonly<Record<string, (text: string) => Settings | undefined>> = {
  prefix: (prefix) => (/^[^{}\s]+$/.test(prefix) ? { prefix } : undefined),
  replicas: (text) => (/^\d{1,2}$/.test(text) ? { replicas: Number(text) } : undefined),
  quarantine: (text) =>
    text === 'detected' || text === 'strict' || text === 'off' ? { quarantine: text } : undefined,
}

const kinds: Readonly<Record<string, RedisPlace['is']>> = {
  'redis+sentinel': 'sentinel',
  'redis+cluster': 'cluster',
  redlock: 'redlock',
}

/** @throws CliError; `shown` is the URL without its password. */
export function redisPlace(scheme: string, rest: string, shown: string): RedisPlace {
  const is = kinds[scheme] ?? 'single'
  const parts = /^\/\/(?:([^@/?]*)@)?([^/?#]+)(?:\/([^?#]*))?(?:\?([^#]*))?$/.exec(rest)
  if (parts === null) throw badInput(`'${shown}' names no host; write ${scheme}://host:6379`)
  const [, user, hosts = '', path = '', query = ''] = parts
  const usual = is === 'sentinel' ? 26_379 : 6379
  const place = {
    is,
    hosts: hosts.split(',').map((text) => address(text, usual, shown)),
    tls: scheme === 'rediss',
    login: user === undefined ? {} : loginOf(user),
    database: is === 'single' || is === 'redlock' ? databaseOf(path, shown) : 0,
    master: is === 'sentinel' ? decodeURIComponent(path) : '',
    options: optionsOf(query, shown, is === 'redlock' ? ['prefix'] : Object.keys(settings)),
  } as const
  if (is === 'single' && place.hosts.length > 1) {
    throw badInput(`'${shown}' has several hosts; use redis+sentinel:, redis+cluster: or redlock: for them`)
  }
  const distinct = new Set(place.hosts.map(({ host, port }) => `${host}:${port}`)).size
  if (is === 'redlock' && (distinct < 3 || distinct < place.hosts.length)) {
    throw badInput(`'${shown}' needs at least 3 servers, each once; for one server use redis:`)
  }
  if (is === 'sentinel' && place.master === '') {
    throw badInput(
      `'${shown}' needs the name of the master after the hosts, as in redis+sentinel://h1,h2/mymaster`,
    )
  }
  return place
}

function address(text: string, usual: number, shown: string): Address {
  const [, bracketed, plain, port] = /^(?:\[([^\]]+)\]|([^:[\]]+))(?::(\d+))?$/.exec(text) ?? []
  const host = bracketed ?? plain
  if (host === undefined || Number(port ?? usual) > 65_535) {
    throw badInput(`'${shown}' has the host '${text}'; write host, host:port or [address]:port`)
  }
  return { host, port: Number(port ?? usual) }
}

function loginOf(user: string): RedisPlace['login'] {
  const [username = '', ...rest] = user.split(':')
  return {
    ...(username !== '' && { username: decodeURIComponent(username) }),
    ...(rest.length > 0 && { password: decodeURIComponent(rest.join(':')) }),
  }
}

function databaseOf(path: string, shown: string): number {
  if (path === '') return 0
  if (!/^\d+$/.test(path)) throw badInput(`'${shown}' has the database '${path}'; it must be a number`)
  return Number(path)
}

function optionsOf(query: string, shown: string, known: readonly string[]): Settings {
  let found: Settings = {}
  for (const [key, text] of new URLSearchParams(query)) {
    const read = known.includes(key) ? settings[key] : undefined
    if (read === undefined) {
      throw badInput(`'${shown}' has the unknown setting '${key}'; known are ${known.join(', ')}`)
    }
    const setting = read(text)
    if (setting === undefined) throw badInput(`'${shown}' has ${key}=${text}, which makes no sense there`)
    found = { ...found, ...setting }
  }
  return found
}

/** @param library the one to use; default: whichever is installed, ioredis first */
export async function connectRedis(place: RedisPlace, library?: Library): Promise<Connection> {
  const opened = await Promise.all(nodesOf(place).map((node) => clientOf(node, library)))
  let trouble: string | undefined
  for (const { client } of opened) {
    client.on('error', (error) => {
      trouble = String((error as Error | undefined)?.message || error)
    })
  }
  const clients = opened.map(({ client }) => client)
  return {
    driver: await driverOf(place, clients),
    trouble: () => trouble,
    close: async () => void (await Promise.all(opened.map(({ close }) => close()))),
  }
}

/** Redlock has a client for each server. */
function nodesOf(place: RedisPlace): RedisPlace[] {
  return place.is === 'redlock'
    ? place.hosts.map((host) => ({ ...place, is: 'single', hosts: [host] }))
    : [place]
}

async function driverOf(
  { is, options }: RedisPlace,
  clients: readonly RedisClient[],
): Promise<DriverFactory> {
  const [client] = clients
  if (is === 'redlock') return (await import('holdfast/redlock')).redlock({ clients, ...prefixOf(options) })
  if (client === undefined) throw new TypeError('there is no client')
  return (await import('holdfast/redis')).redis({ client, ...options })
}

const prefixOf = ({ prefix }: Settings) => (prefix === undefined ? {} : { prefix })

interface Opened {
  readonly client: RedisClient
  readonly close: () => Promise<void>
}

/** The driver repeats what it has to for as long as there is time; a client that does so, too, only delays the answer. */
const few = 2

async function clientOf(place: RedisPlace, library: Library | undefined): Promise<Opened> {
  const makers = { ioredis: withIoredis, redis: withNodeRedis }
  const tried = library === undefined ? (['ioredis', 'redis'] as const) : [library]
  for (const name of tried) {
    try {
      return await makers[name](place)
    } catch (error) {
      if ((error as { code?: unknown }).code !== 'ERR_MODULE_NOT_FOUND') throw error
    }
  }
  throw new CliError(
    exits.unavailable,
    `a redis: URL needs a client library, and none is installed (looked for ${tried.join(' and ')}); npm install ioredis`,
  )
}

async function withIoredis({ is, hosts, tls, login, database, master }: RedisPlace): Promise<Opened> {
  const { Cluster, Redis } = await import('ioredis')
  const secure = tls ? { tls: {} } : {}
  const client =
    is === 'cluster'
      ? new Cluster([...hosts], { redisOptions: { ...login, maxRetriesPerRequest: few } })
      : is === 'sentinel'
        ? new Redis({ sentinels: [...hosts], name: master, ...login, maxRetriesPerRequest: few })
        : new Redis({ ...hosts[0], db: database, ...login, ...secure, maxRetriesPerRequest: few })
  return { client, close: async () => client.disconnect() }
}

async function withNodeRedis({ is, hosts, tls, login, database, master }: RedisPlace): Promise<Opened> {
  const { createClient, createCluster, createSentinel } = await import('redis')
  const [first] = hosts
  const secure = tls ? ({ tls: true } as const) : {}
  const client =
    is === 'cluster'
      ? createCluster({ rootNodes: hosts.map((socket) => ({ socket: { ...socket } })), defaults: login })
      : is === 'sentinel'
        ? createSentinel({ name: master, sentinelRootNodes: [...hosts], nodeClientOptions: login })
        : createClient({ socket: { ...first, ...secure }, database, ...login })
  // It goes on trying by itself; what is asked of it meanwhile fails in its own time.
  void client.connect().catch(() => undefined)
  const close = async () => {
    try {
      await client.destroy()
    } catch {
      // It never came up.
    }
  }
  return { client, close }
}
