/** URLs with several hosts between commas, which WHATWG URLs do not know: `//[user:password@]h1[:port],h2[/path][?query]`. */
import { badInput } from './exit.js'

export interface Hosts {
  /** `host:port`, with brackets around an IPv6 address. */
  readonly hosts: readonly string[]
  readonly user: string | undefined
  readonly password: string | undefined
  readonly path: string
  readonly query: ReadonlyMap<string, string>
}

/** @throws CliError; `shown` is the URL without its password */
export function hostsOf(
  scheme: string,
  rest: string,
  usual: number,
  known: readonly string[],
  shown: string,
): Hosts {
  const parts = /^\/\/(?:([^@/?]*)@)?([^/?#]+)(?:\/([^?#]*))?(?:\?([^#]*))?$/.exec(rest)
  if (parts === null) throw badInput(`'${shown}' names no host; write ${scheme}://host:${usual}`)
  const [, login = '', hosts = '', path = '', search = ''] = parts
  const [user = '', ...password] = login.split(':')
  const query = new Map(new URLSearchParams(search))
  for (const key of query.keys()) {
    if (!known.includes(key)) {
      throw badInput(`'${shown}' has the unknown setting '${key}'; known are ${known.join(', ')}`)
    }
  }
  return {
    hosts: hosts.split(',').map((text) => hostOf(text, usual, shown)),
    user: user === '' ? undefined : decodeURIComponent(user),
    password: password.length === 0 ? undefined : decodeURIComponent(password.join(':')),
    path: decodeURIComponent(path),
    query,
  }
}

function hostOf(text: string, usual: number, shown: string): string {
  const [, host, port] = /^(\[[^\]]+\]|[^:[\]]+)(?::(\d+))?$/.exec(text) ?? []
  if (host === undefined || Number(port ?? usual) > 65_535) {
    throw badInput(`'${shown}' has the host '${text}'; write host, host:port or [address]:port`)
  }
  return `${host}:${port ?? usual}`
}

/** A setting that is either there or not: `?tls`, `?tls=true`, `?tls=false`. */
export function flagIn(query: ReadonlyMap<string, string>, key: string, shown: string): boolean {
  const text = query.get(key)
  if (text === undefined || text === 'false') return false
  if (text === '' || text === 'true') return true
  throw badInput(`'${shown}' has ${key}=${text}; it is true or false`)
}
