/**
 * MySQL and MariaDB URLs:
 *
 * ```
 * mysql://[user[:password]@]host[:3306]/database      mysqls:// does not exist: ?tls=true
 * ?strategy=row|session  &bell=true  &prefix=holdfast_  &create=false  &tls=true
 * ```
 */
import type { MysqlOptions } from 'holdfast/mysql'
import type { Connection } from './connect.js'
import { badInput, CliError, exits } from './exit.js'

type Settings = Pick<MysqlOptions, 'strategy' | 'bell' | 'prefix' | 'create'>

export interface MysqlPlace {
  readonly host: string
  readonly port: number
  readonly user: string
  readonly password: string | undefined
  readonly database: string
  readonly tls: boolean
  readonly options: Settings
}

const yes = (text: string) => (text === 'true' ? true : text === 'false' ? false : undefined)

/** What a URL may say. `undefined`: not in this form. */
const settings: Readonly<Record<string, (text: string) => (Settings & { tls?: boolean }) | undefined>> = {
  strategy: (text) => (text === 'row' || text === 'session' ? { strategy: text } : undefined),
  bell: (text) => {
    const bell = yes(text)
    return bell === undefined ? undefined : { bell }
  },
  prefix: (prefix) => (/^\w{1,40}$/.test(prefix) ? { prefix } : undefined),
  create: (text) => {
    const create = yes(text)
    return create === undefined ? undefined : { create }
  },
  tls: (text) => {
    const tls = yes(text)
    return tls === undefined ? undefined : { tls }
  },
}

/** @throws CliError; `shown` is the URL without its password. */
export function mysqlPlace(rest: string, shown: string): MysqlPlace {
  const parts = /^\/\/(?:([^@/?]*)@)?([^/?#]*)(?:\/([^?#]*))?(?:\?([^#]*))?$/.exec(rest)
  const [, login = '', address = '', database = '', query = ''] = parts ?? []
  const [, bracketed, plain, port = '3306'] = /^(?:\[([^\]]+)\]|([^:[\]]+))(?::(\d+))?$/.exec(address) ?? []
  const host = bracketed ?? plain
  if (host === undefined || Number(port) > 65_535) {
    throw badInput(`'${shown}' names no host; write mysql://user@host:3306/database`)
  }
  if (database === '') throw badInput(`'${shown}' names no database; write mysql://user@host:3306/database`)
  const [user = '', ...password] = login.split(':')
  const { tls = false, ...options } = settingsOf(query, shown)
  return {
    host,
    port: Number(port),
    user: decodeURIComponent(user) || 'root',
    password: password.length === 0 ? undefined : decodeURIComponent(password.join(':')),
    database: decodeURIComponent(database),
    tls,
    options,
  }
}

function settingsOf(query: string, shown: string): Settings & { tls?: boolean } {
  let found: Settings & { tls?: boolean } = {}
  for (const [key, text] of new URLSearchParams(query)) {
    const read = Object.hasOwn(settings, key) ? settings[key] : undefined
    if (read === undefined) {
      throw badInput(
        `'${shown}' has the unknown setting '${key}'; known are ${Object.keys(settings).join(', ')}`,
      )
    }
    const setting = read(text)
    if (setting === undefined) throw badInput(`'${shown}' has ${key}=${text}, which makes no sense there`)
    found = { ...found, ...setting }
  }
  return found
}

export async function connectMysql(place: MysqlPlace): Promise<Connection> {
  const { createPool } = await import('mysql2/promise').catch((error: unknown) => {
    if ((error as { code?: unknown }).code !== 'ERR_MODULE_NOT_FOUND') throw error
    throw new CliError(
      exits.unavailable,
      'a mysql: URL needs the client mysql2, which is not installed; npm install mysql2',
    )
  })
  const { host, port, user, password, database, tls, options } = place
  const pool = createPool({
    ...{ host, port, user, database, connectionLimit: 4, connectTimeout: 5_000 },
    ...(password !== undefined && { password }),
    ...(tls && { ssl: {} }),
  })
  const { mysql } = await import('holdfast/mysql')
  return { driver: mysql({ pool, ...options }), close: () => pool.end() }
}
