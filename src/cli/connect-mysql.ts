/**
 * MySQL and MariaDB URLs:
 *
 * ```
 * mysql://[user[:password]@]host[:3306]/database      mysqls:// does not exist: ?tls=true
 * ?strategy=row|session  &wakeWithGetLock=true  &prefix=holdfast_  &create=false  &tls=true  &ca=FILE  &cert=FILE  &key=FILE
 * ```
 * A password missing from the URL comes from `MYSQL_PWD`.
 */
import { isIP } from 'node:net'
import type { MysqlOptions } from 'holdfast/mysql'
import type { Connection } from './connect.js'
import { badInput, CliError, exits } from './exit.js'
import { acceptsAnyCertificate, type Keys, parseTls, readKeys, type Tls, tlsSettings } from './tls.js'
import { decoded, parseAddresses, parseLogin, parseParts, parseSettings } from './url.js'

type Settings = Pick<MysqlOptions, 'strategy' | 'wakeWithGetLock' | 'prefix' | 'create'>

export interface MysqlAddress {
  readonly host: string
  readonly port: number
  readonly user: string
  readonly password: string | undefined
  readonly database: string
  readonly tls: Tls | undefined
  readonly options: Settings
}

const yes = (text: string) => (text === 'true' ? true : text === 'false' ? false : undefined)

/** Settings a URL may contain. `undefined`: wrong format. */
const settings: Readonly<Record<string, (text: string) => Settings | undefined>> = {
  strategy: (text) => (text === 'row' || text === 'session' ? { strategy: text } : undefined),
  wakeWithGetLock: (text) => {
    const wakeWithGetLock = yes(text)
    return wakeWithGetLock === undefined ? undefined : { wakeWithGetLock }
  },
  prefix: (prefix) => (/^\w{1,40}$/.test(prefix) ? { prefix } : undefined),
  create: (text) => {
    const create = yes(text)
    return create === undefined ? undefined : { create }
  },
}

/**
 * mysql2 checks the name in a certificate only on request, and only if the host is a name.
 * @throws CliError
 */
export function mysqlTls(
  tls: Tls,
  host: string,
): Omit<Keys, 'rejectUnauthorized'> & { rejectUnauthorized: boolean; verifyIdentity: boolean } {
  const verify = !acceptsAnyCertificate()
  if (verify && isIP(host) !== 0) {
    throw badInput(`mysql2 cannot compare a certificate with the address ${host}; name the host to use TLS`)
  }
  return { ...readKeys(tls), rejectUnauthorized: verify, verifyIdentity: verify }
}

const example = 'mysql://user@host:3306/database'

/** @throws CliError; `shown` is the URL without its password. */
export function parseMysqlAddress(rest: string, shown: string): MysqlAddress {
  const parts = parseParts('mysql', rest, example)
  const [address, more] = parseAddresses(parts.hosts, 3306, shown)
  if (address === undefined || more !== undefined)
    throw badInput(`'${shown}' names several hosts; write ${example}`)
  if (parts.path === '') throw badInput(`'${shown}' names no database; write ${example}`)
  const { user, password } = parseLogin(parts, shown)
  const query = parseSettings(parts, [...Object.keys(settings), ...tlsSettings], shown)
  const tls = parseTls(query, shown, undefined)
  // Refuse before any I/O.
  if (tls !== undefined) mysqlTls(tls, address.host)
  return {
    ...address,
    user: user ?? 'root',
    password: password ?? (process.env['MYSQL_PWD'] || undefined),
    database: decoded(parts.path, shown),
    tls,
    options: parseOptions(query, shown),
  }
}

function parseOptions(query: ReadonlyMap<string, string>, shown: string): Settings {
  let found: Settings = {}
  for (const [key, read] of Object.entries(settings)) {
    const text = query.get(key)
    if (text === undefined) continue
    const setting = read(text)
    if (setting === undefined) throw badInput(`'${shown}' has ${key}=${text}, which makes no sense there`)
    found = { ...found, ...setting }
  }
  return found
}

export async function connectMysql(address: MysqlAddress): Promise<Connection> {
  const { createPool } = await import('mysql2/promise').catch((error: unknown) => {
    if ((error as { code?: unknown }).code !== 'ERR_MODULE_NOT_FOUND') throw error
    throw new CliError(
      exits.unavailable,
      'a mysql: URL needs the client mysql2, which is not installed; npm install mysql2',
    )
  })
  const { host, port, user, password, database, tls, options } = address
  const pool = createPool({
    ...{ host, port, user, database, connectionLimit: 4, connectTimeout: 5_000 },
    ...(password !== undefined && { password }),
    ...(tls !== undefined && { ssl: mysqlTls(tls, host) }),
  })
  const { mysql } = await import('holdfast/mysql')
  // A connection that never came about rejects; why is known already.
  return { driver: mysql({ pool, ...options }), close: () => pool.end().catch(() => undefined) }
}
