/**
 * ```
 * consul://[:token@]host[:8500]
 * ?prefix=holdfast/  &datacenter=dc1  &tls=true  &ca=FILE  &cert=FILE  &key=FILE  &min-ttl=10s
 * ```
 * Token and TLS settings missing from the URL come from the variables of Consul's own tools: `CONSUL_HTTP_TOKEN`, `CONSUL_HTTP_TOKEN_FILE`,
 * `CONSUL_HTTP_SSL`, `CONSUL_CACERT`, `CONSUL_CLIENT_CERT` and `CONSUL_CLIENT_KEY`.
 */
import { readFileSync } from 'node:fs'
import type { Opening } from './connect.js'
import { parseDuration } from './duration.js'
import { badInput } from './exit.js'
import { plain } from './print.js'
import { parseTls, readKeys, type Tls, tlsSettings } from './tls.js'
import { consulFiles } from './tools-environment.js'
import { checkFiles, filesFrom, flagOf } from './tools-values.js'
import { decoded, hostPort, parseAddresses, parseLogin, parseParts, parseSettings } from './url.js'

const known = ['prefix', 'datacenter', 'min-ttl', ...tlsSettings] as const

export interface ConsulAddress {
  /** `host:port` */
  readonly hosts: readonly string[]
  readonly tls: Tls | undefined
  readonly token: string | undefined
  readonly prefix: string | undefined
  readonly datacenter: string | undefined
  /** In ms. */
  readonly minTtl: number | undefined
}

/** @throws CliError; `shown` is the URL without its password */
export function parseConsulAddress(rest: string, shown: string): ConsulAddress {
  const parts = parseParts('consul', rest, 'consul://host:8500')
  const path = decoded(parts.path, shown)
  if (path !== '')
    throw badInput(`'${shown}' has the path '/${path}'; write ?prefix=${path}/ for keys of their own`)
  const { user, password } = parseLogin(parts, shown)
  if (user !== undefined)
    throw badInput(`'${shown}' has a user; Consul knows tokens, write :token@ before the host`)
  const query = parseSettings(parts, known, shown)
  const least = query.get('min-ttl')
  return {
    hosts: parseAddresses(parts.hosts, 8500, shown).map(hostPort),
    tls: parseTls(query, shown, query.get('tls') === 'false' ? undefined : tlsFromEnvironment()),
    token: password,
    prefix: query.get('prefix'),
    datacenter: query.get('datacenter'),
    minTtl: least === undefined ? undefined : parseDuration('min-ttl', least, { least: 100 }),
  }
}

/** @throws CliError */
function tlsFromEnvironment(): Tls | undefined {
  if (!flagOf('CONSUL_HTTP_SSL', process.env['CONSUL_HTTP_SSL'])) return undefined
  const files = filesFrom(process.env, consulFiles)
  checkFiles(files, consulFiles)
  return files
}

/** The token from the URL, or else from where Consul's own tools look. @throws CliError */
export function consulToken({ token }: Pick<ConsulAddress, 'token'>): string | undefined {
  const { CONSUL_HTTP_TOKEN, CONSUL_HTTP_TOKEN_FILE } = process.env
  if (token !== undefined) return token
  if (CONSUL_HTTP_TOKEN) return checkedToken('CONSUL_HTTP_TOKEN', CONSUL_HTTP_TOKEN)
  if (!CONSUL_HTTP_TOKEN_FILE) return undefined
  const file = `CONSUL_HTTP_TOKEN_FILE=${plain(CONSUL_HTTP_TOKEN_FILE)}`
  return checkedToken(file, readToken(file, CONSUL_HTTP_TOKEN_FILE))
}

function readToken(shown: string, file: string): string {
  try {
    return readFileSync(file, 'utf8').trim()
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    throw badInput(`${shown} cannot be read: ${code}; name a readable file, or unset it`)
  }
}

/** A token is sent as a header. @param from where it is from: the token itself is not shown */
function checkedToken(from: string, token: string): string {
  if (/^[\x21-\x7e]+$/.test(token)) return token
  const what =
    token === ''
      ? 'no token in it'
      : 'a character that no token has: a blank, a line break or one outside of ASCII'
  throw badInput(`${from} has ${what}; write the token alone, or unset it`)
}

/** @throws CliError */
export function consulTarget(rest: string, shown: string): Opening {
  const address = parseConsulAddress(rest, shown)
  const { hosts, tls, prefix, datacenter, minTtl } = address
  const token = consulToken(address)
  const connect = async () => {
    const { consul } = await import('holdfast/consul')
    const driver = consul({
      url: hosts.map((host) => `${tls === undefined ? 'http' : 'https'}://${host}`),
      ...(token !== undefined && { token }),
      ...(prefix !== undefined && { prefix }),
      ...(datacenter !== undefined && { datacenter }),
      ...(minTtl !== undefined && { minTtl }),
      ...(tls !== undefined && { tls: readKeys(tls) }),
    })
    return { driver, close: async () => undefined }
  }
  return { connect, tls: tls && readKeys(tls) }
}
