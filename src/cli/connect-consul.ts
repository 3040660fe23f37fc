/**
 * ```
 * consul://[:token@]host[:8500]
 * ?prefix=holdfast/  &datacenter=dc1  &tls=true  &ca=/path/to/ca.pem  &min-ttl=10s
 * ```
 * A token may stand in CONSUL_HTTP_TOKEN instead, where Consul's own programs look for it.
 */
import { readFile } from 'node:fs/promises'
import type { Target } from './connect.js'
import { parseDuration } from './duration.js'
import { badInput } from './exit.js'
import { flagIn, hostsOf } from './hosts.js'

const known = ['prefix', 'datacenter', 'tls', 'ca', 'min-ttl'] as const

export interface ConsulPlace {
  /** `host:port` */
  readonly hosts: readonly string[]
  readonly secure: boolean
  readonly token: string | undefined
  readonly prefix: string | undefined
  readonly datacenter: string | undefined
  /** In ms. */
  readonly minTtl: number | undefined
  /** A file. */
  readonly ca: string | undefined
}

/** @throws CliError; `shown` is the URL without its password */
export function consulPlace(rest: string, shown: string): ConsulPlace {
  const { hosts, user, password, path, query } = hostsOf('consul', rest, 8500, known, shown)
  if (path !== '')
    throw badInput(`'${shown}' has the path '/${path}'; write ?prefix=${path}/ for keys of their own`)
  if (user !== undefined)
    throw badInput(`'${shown}' has a user; Consul knows tokens, write :token@ before the host`)
  const [prefix, datacenter, ca] = (['prefix', 'datacenter', 'ca'] as const).map((key) => query.get(key))
  const secure = flagIn(query, 'tls', shown) || ca !== undefined
  const least = query.get('min-ttl')
  const minTtl = least === undefined ? undefined : parseDuration('min-ttl', least, { least: 100 })
  return { hosts, secure, token: password, prefix, datacenter, minTtl, ca }
}

/** A token that the URL does not have is looked for where Consul's own programs look. */
export const consulToken = ({ token }: ConsulPlace): string | undefined =>
  token ?? (process.env['CONSUL_HTTP_TOKEN'] || undefined)

/** @throws CliError */
export function consulTarget(rest: string, shown: string): Target['connect'] {
  const place = consulPlace(rest, shown)
  const { hosts, secure, prefix, datacenter, minTtl, ca } = place
  return async () => {
    const { consul } = await import('holdfast/consul')
    const token = consulToken(place)
    const driver = consul({
      url: hosts.map((host) => `${secure ? 'https' : 'http'}://${host}`),
      ...(token !== undefined && { token }),
      ...(prefix !== undefined && { prefix }),
      ...(datacenter !== undefined && { datacenter }),
      ...(minTtl !== undefined && { minTtl }),
      ...(ca !== undefined && { tls: { ca: await readFile(ca) } }),
    })
    return { driver, close: async () => undefined }
  }
}
