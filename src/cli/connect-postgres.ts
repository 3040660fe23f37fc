/**
 * PostgreSQL URLs:
 *
 * ```
 * postgres://[user[:password]@]host[:5432]/database      postgresql:// is the same
 * ?strategy=row|session  &schema=public  &create=false  &listen=false  &tls=true
 * ```
 */
import type { PostgresOptions } from 'holdfast/postgres'
import type { Connection } from './connect.js'
import { badInput, CliError, exits } from './exit.js'

type Settings = Pick<PostgresOptions, 'strategy' | 'schema' | 'create' | 'listen'>

export interface PostgresPlace {
  readonly host: string
  readonly port: number
  readonly user: string
  readonly password: string | undefined
  readonly database: string
  readonly tls: boolean
  readonly options: Settings
}

/** What a URL may say. `undefined`: not in this form. */
const settings: Readonly<Record<string, (text: string) => (Settings & { tls?: boolean }) | undefined>> = {
  strategy: (text) => (text === 'row' || text === 'session' ? { strategy: text } : undefined),
  schema: (schema) => (/^[A-Za-z_][A-Za-z0-9_-]{0,62}$/.test(schema) ? { schema } : undefined),
  create: (text) => (text === 'true' || text === 'false' ? { create: text === 'true' } : undefined),
  listen: (text) => (text === 'false' ? { listen: false } : undefined),
  tls: (text) => (text === 'true' || text === 'false' ? { tls: text === 'true' } : undefined),
}

const form = 'postgres://user@host:5432/database'

/** @throws CliError; `shown` is the URL without its password. */
export function postgresPlace(rest: string, shown: string): PostgresPlace {
  const parts = /^\/\/(?:([^@/?]*)@)?([^/?#]*)(?:\/([^?#]*))?(?:\?([^#]*))?$/.exec(rest)
  const [, login = '', address = '', database = '', query = ''] = parts ?? []
  const [, bracketed, plain, port = '5432'] = /^(?:\[([^\]]+)\]|([^:[\]]+))(?::(\d+))?$/.exec(address) ?? []
  const host = bracketed ?? plain
  if (host === undefined || Number(port) > 65_535) throw badInput(`'${shown}' names no host; write ${form}`)
  if (database === '') throw badInput(`'${shown}' names no database; write ${form}`)
  const [user = '', ...password] = login.split(':')
  const { tls = false, ...options } = settingsOf(query, shown)
  return {
    host,
    port: Number(port),
    user: decoded(user, shown) || 'postgres',
    password: password.length === 0 ? undefined : decoded(password.join(':'), shown),
    database: decoded(database, shown),
    tls,
    options,
  }
}

function decoded(text: string, shown: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    throw badInput(`'${shown}' has a % that is not the beginning of a byte; write it as %25`)
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

export async function connectPostgres(place: PostgresPlace): Promise<Connection> {
  const { default: pg } = await import('pg').catch((error: unknown) => {
    if ((error as { code?: unknown }).code !== 'ERR_MODULE_NOT_FOUND') throw error
    throw new CliError(
      exits.unavailable,
      'a postgres: URL needs the client pg, which is not installed; npm install pg',
    )
  })
  const { host, port, user, password, database, tls, options } = place
  const pool = new pg.Pool({
    ...{ host, port, user, database, connectionTimeoutMillis: 5_000 },
    ...(password !== undefined && { password }),
    ...(tls && { ssl: true }),
  })
  const { postgres } = await import('holdfast/postgres')
  return { driver: postgres({ pool, ...options }), close: () => pool.end() }
}
