/**
 * PostgreSQL URLs:
 *
 * ```
 * postgres://[user[:password]@]host[:5432]/database      postgresql:// is the same
 * ?strategy=row|session  &schema=public  &create=false  &listen=false  &tls=true  &ca=FILE  &cert=FILE  &key=FILE
 * ```
 * A password missing from the URL comes from `PGPASSWORD`; for other variables see `tools-environment.ts`.
 */
import type { ConnectionOptions } from 'node:tls'
import type { PostgresOptions } from 'holdfast/postgres'
import type { Connection } from './connect.js'
import { badInput, CliError, exits } from './exit.js'
import { parseTls, readKeys, type Tls, tlsSettings } from './tls.js'
import { decoded, parseAddresses, parseLogin, parseParts, parseSettings } from './url.js'
import { flag, matching, oneOf, parseOptions, type UrlSettings } from './url-settings.js'

type Settings = Pick<PostgresOptions, 'strategy' | 'schema' | 'create' | 'listen'>

export interface PostgresAddress {
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
  schema: matching(/^[A-Za-z_][A-Za-z0-9_-]{0,62}$/, 'a name of at most 63 letters, digits, _ and -'),
  create: flag,
  listen: { accepts: 'false', parse: (text) => (text === 'false' ? false : undefined) },
}

/** If the host is an address, older versions of pg compare the name in the certificate with `localhost`. */
export async function postgresTls(tls: Tls, host: string): Promise<ConnectionOptions> {
  const { checkServerIdentity } = await import('node:tls')
  return {
    rejectUnauthorized: true,
    ...readKeys(tls),
    checkServerIdentity: (_name, certificate) => checkServerIdentity(host, certificate),
  }
}

const example = 'postgres://user@host:5432/database'

/** @throws CliError; `shown` is the URL without its password. */
export function parsePostgresAddress(rest: string, shown: string): PostgresAddress {
  const parts = parseParts('postgres', rest, example)
  const [address, more] = parseAddresses(parts.hosts, 5432, shown)
  if (address === undefined || more !== undefined)
    throw badInput(`'${shown}' names several hosts; write ${example}`)
  if (parts.path === '') throw badInput(`'${shown}' names no database; write ${example}`)
  const { user, password } = parseLogin(parts, shown)
  const query = parseSettings(parts, [...Object.keys(settings), ...tlsSettings], shown)
  return {
    ...address,
    user: user ?? 'postgres',
    password: password ?? (process.env['PGPASSWORD'] || undefined),
    database: decoded(parts.path, shown),
    tls: parseTls(query, shown, undefined),
    options: parseOptions(settings, query, shown),
  }
}

export async function connectPostgres(address: PostgresAddress): Promise<Connection> {
  const { default: pg } = await import('pg').catch((error: unknown) => {
    if ((error as { code?: unknown }).code !== 'ERR_MODULE_NOT_FOUND') throw error
    throw new CliError(
      exits.unavailable,
      'a postgres: URL needs the client pg, which is not installed; npm install pg',
    )
  })
  const { host, port, user, password, database, tls, options } = address
  const pool = new pg.Pool({
    ...{ host, port, user, database, connectionTimeoutMillis: 5_000 },
    ...(password !== undefined && { password }),
    ...(tls !== undefined && { ssl: await postgresTls(tls, host) }),
  })
  const { postgres } = await import('holdfast/postgres')
  return { driver: postgres({ pool, ...options }), close: () => pool.end() }
}
