/**
 * ```
 * etcd://[user:password@]h1[:2379],h2,h3
 * ?prefix=holdfast/  &tls=true  &ca=/path/to/ca.pem
 * ```
 */
import { readFile } from 'node:fs/promises'
import type { Target } from './connect.js'
import { badInput } from './exit.js'
import { flagIn, hostsOf } from './hosts.js'

export interface EtcdPlace {
  /** `host:port` */
  readonly hosts: readonly string[]
  readonly secure: boolean
  readonly login: { readonly name: string; readonly password: string } | undefined
  readonly prefix: string | undefined
  /** A file. */
  readonly ca: string | undefined
}

/** @throws CliError; `shown` is the URL without its password */
export function etcdPlace(rest: string, shown: string): EtcdPlace {
  const { hosts, user, password, path, query } = hostsOf('etcd', rest, 2379, ['prefix', 'tls', 'ca'], shown)
  if (path !== '')
    throw badInput(`'${shown}' has the path '/${path}'; write ?prefix=${path}/ for keys of their own`)
  if ((user === undefined) !== (password === undefined)) {
    throw badInput(`'${shown}' has half a login; write user:password@ before the hosts`)
  }
  const ca = query.get('ca')
  const secure = flagIn(query, 'tls', shown) || ca !== undefined
  const login = user === undefined || password === undefined ? undefined : { name: user, password }
  return { hosts, secure, login, prefix: query.get('prefix'), ca }
}

/** @throws CliError */
export function etcdTarget(rest: string, shown: string): Target['connect'] {
  const { hosts, secure, login, prefix, ca } = etcdPlace(rest, shown)
  return async () => {
    const { etcd } = await import('holdfast/etcd')
    const driver = etcd({
      endpoints: hosts.map((host) => `${secure ? 'https' : 'http'}://${host}`),
      ...(login !== undefined && { username: login.name, password: login.password }),
      ...(prefix !== undefined && { prefix }),
      ...(ca !== undefined && { tls: { ca: await readFile(ca) } }),
    })
    return { driver, close: async () => undefined }
  }
}
