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
import { flag, matching, oneOf, parseOptions, type UrlSettings } from './url-settings.js'

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

/** Driver options a URL may contain. */
const settings: UrlSettings<Settings> = {
  strategy: oneOf('row', 'session'),
  wakeWithGetLock: flag,
  prefix: matching(/^\w{1,40}$/, 'at most 40 letters, digits and _'),
  create: flag,
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
    options: parseOptions(settings, query, shown),
  }
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
