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

/** @throws CliError; `shown` is the URL without its password */
export function etcdTarget(rest: string, shown: string): Target['connect'] {
  const { hosts, user, password, path, query } = hostsOf('etcd', rest, 2379, ['prefix', 'tls', 'ca'], shown)
  if (path !== '')
    throw badInput(`'${shown}' has the path '/${path}'; write ?prefix=${path}/ for keys of their own`)
  if ((user === undefined) !== (password === undefined)) {
    throw badInput(`'${shown}' has half a login; write user:password@ before the hosts`)
  }
  const ca = query.get('ca')
  const secure = flagIn(query, 'tls', shown) || ca !== undefined
  const prefix = query.get('prefix')
  return async () => {
    const { etcd } = await import('holdfast/etcd')
    const driver = etcd({
      endpoints: hosts.map((host) => `${secure ? 'https' : 'http'}://${host}`),
      ...(user !== undefined && password !== undefined && { username: user, password }),
      ...(prefix !== undefined && { prefix }),
      ...(ca !== undefined && { tls: { ca: await readFile(ca) } }),
    })
    return { driver, close: async () => undefined }
  }
}
