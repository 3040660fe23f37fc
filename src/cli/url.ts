/**
 * Store URLs: `scheme://[login@]h1[:port],h2[/path][?settings]`. Several hosts are separated by commas, which WHATWG URLs do not support.
 *
 * A URL contains secrets, sometimes where nobody expects them: an unencoded `/` or `?` in a password ends the login, and the rest of the
 * password becomes a host or a setting. So messages never repeat text that could not be parsed, and build what they show from the parsed
 * parts.
 */
import { isIP } from 'node:net'
import { badInput } from './exit.js'

export interface Address {
  readonly host: string
  readonly port: number
}

export interface Parts {
  /** As written, still encoded. */
  readonly login: string | undefined
  readonly hosts: string
  /** Without the leading slash, still encoded. */
  readonly path: string
  readonly search: string
}

const form = /^\/\/(?:([^@/?]*)@)?([^/?#@]+)(?:\/([^?#@]*))?(?:\?([^#@]*))?$/

function parsed(rest: string): Parts | undefined {
  const found = form.exec(rest)
  if (found === null) return undefined
  const [, login, hosts = '', path = '', search = ''] = found
  return { login, hosts, path, search }
}

/** @param example a valid URL, for the message. @throws CliError */
export function parseParts(scheme: string, rest: string, example: string): Parts {
  const parts = parsed(rest)
  if (parts !== undefined) return parts
  if (rest.includes('@')) {
    throw badInput(
      `the ${scheme}: URL cannot be read; write ${example}, with %40, %2F, %3F and %23 for @, /, ? and # in a password or a setting`,
    )
  }
  throw badInput(`'${scheme}:' names no host; write ${example}`)
}

/** The URL without its secrets, for messages and output. */
export function displayUrl(scheme: string, rest: string): string {
  if (scheme.toLowerCase() === 'local') return `${scheme}:${rest}`
  const parts = parsed(rest)
  if (parts === undefined) return `${scheme}:`
  const { login, hosts, path, search } = parts
  const [user, ...password] = login?.split(':') ?? []
  const who = login === undefined ? '' : `${user}${password.length > 0 ? ':***' : ''}@`
  return `${scheme}://${who}${displayHosts(hosts)}${path === '' ? '' : `/${path}`}${displaySearch(search)}`
}

/** An invalid host may be a login whose `@host` was forgotten. */
function displayHosts(hosts: string): string {
  return hosts
    .split(',')
    .map((text) => (parseAddress(text, 0) === undefined ? '…' : text))
    .join(',')
}

/** Settings that are not secret; for any other, even the name is hidden. */
const open = new Set(
  'prefix replicas quarantine maxTtl strategy schema create listen wakeWithGetLock tls ca cert key datacenter min-ttl names sessionTimeout tickTime acl'.split(
    ' ',
  ),
)

function displaySearch(search: string): string {
  if (search === '') return ''
  const shown = search
    .split('&')
    .map((pair) => (open.has(pair.split('=', 1)[0] ?? '') ? pair : '…'))
    .join('&')
  return `?${shown}`
}

function parseAddress(text: string, usual: number): Address | undefined {
  if (addressComplaint(text) !== undefined) return undefined
  const [, bracketed, plain = '', port = usual] = addressForm.exec(text) ?? []
  return { host: bracketed ?? plain, port: Number(port) }
}

const addressForm = /^(?:\[([^\]]*)\]|([^:[\]\s]+))(?::(\d{1,5}))?$/

/** What is wrong with `host`, `host:port` or `[address]:port`, and what to write; undefined: nothing is. Repeats nothing of it. */
export function addressComplaint(text: string): string | undefined {
  const [whole, bracketed, , port] = addressForm.exec(text) ?? []
  const address = bracketed ?? text
  if (isIP(address) === 6 && address.includes('%'))
    return 'an IPv6 address with a zone (%eth0); give a name, or an address without a zone'
  if (isIP(text) === 6) return 'an IPv6 address without brackets; write [address] or [address]:port'
  if (whole === undefined || (bracketed !== undefined && isIP(bracketed) !== 6))
    return 'a host that cannot be read; write host, host:port or [address]:port'
  if (port !== undefined && (Number(port) < 1 || Number(port) > 65_535))
    return 'a port that is not from 1 to 65535; write host, host:port or [address]:port'
  return undefined
}

/** @throws CliError */
export function parseAddresses(hosts: string, usual: number, shown: string): Address[] {
  return hosts.split(',').map((text) => {
    const address = parseAddress(text, usual)
    if (address === undefined) throw badInput(`'${shown}' has ${addressComplaint(text)}`)
    return address
  })
}

const defaultPorts: Readonly<Record<string, number>> = {
  'redis+sentinel': 26_379,
  etcd: 2379,
  zookeeper: 2181,
  consul: 8500,
  postgres: 5432,
  postgresql: 5432,
  mysql: 3306,
}

/** For a URL that was parsed before. */
export function parseHosts(scheme: string, rest: string): Address[] {
  const hosts = parsed(rest)?.hosts.split(',') ?? []
  return hosts.flatMap((text) => parseAddress(text, defaultPorts[scheme] ?? 6379) ?? [])
}

/** `host:port`, with brackets around an IPv6 address. */
export function hostPort({ host, port }: Address): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`
}

/** @throws CliError */
export function decoded(text: string, shown: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    throw badInput(`'${shown}' has a % that is not the beginning of a byte; write it as %25`)
  }
}

export interface Login {
  readonly user: string | undefined
  readonly password: string | undefined
}

/** `user`, `user:password`, `:password`. @throws CliError */
export function parseLogin({ login = '' }: Parts, shown: string): Login {
  const [user = '', ...password] = login.split(':')
  return {
    user: user === '' ? undefined : decoded(user, shown),
    password: password.length === 0 ? undefined : decoded(password.join(':'), shown),
  }
}

/** @throws CliError for an unknown setting, and for one that is given twice */
export function parseSettings(
  { search }: Parts,
  known: readonly string[],
  shown: string,
): Map<string, string> {
  const query = new Map<string, string>()
  for (const [key, value] of new URLSearchParams(search)) {
    if (known.includes(key)) {
      if (query.has(key)) throw badInput(`'${shown}' has ${key} twice; give it once`)
      query.set(key, value)
      continue
    }
    const secret = /pass|pwd|token|secret|auth/i.test(key)
      ? '; a password goes before the host: user:password@'
      : ''
    const which =
      value !== '' && /^[\w-]{1,20}$/.test(key) ? `the unknown setting '${key}'` : 'an unknown setting'
    throw badInput(`'${shown}' has ${which}; known are ${known.join(', ')}${secret}`)
  }
  return query
}
