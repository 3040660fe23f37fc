/**
 * ZooKeeper URLs:
 *
 * ```
 * zookeeper://[user:password@]h1[:2181],h2,h3[/chroot]      the login is a digest
 * ?strategy=simple  &names=kazoo  &sessionTimeout=10000  &tickTime=2000  &acl=creator  &tls=true  &ca=FILE  &cert=FILE  &key=FILE
 * ```
 */
import type { ZookeeperOptions } from 'holdfast/zookeeper'
import type { Connection } from './connect.js'
import { badInput } from './exit.js'
import { type Keys, parseTls, readKeys, tlsSettings } from './tls.js'
import { decoded, parseAddresses, parseParts, parseSettings } from './url.js'
import { oneOf, parseOptions, type UrlSettings, whole } from './url-settings.js'

type Settings = Pick<ZookeeperOptions, 'strategy' | 'names' | 'sessionTimeout' | 'tickTime' | 'acl'>

/** Driver options a URL may contain. */
const settings: UrlSettings<Settings> = {
  strategy: oneOf('line', 'simple'),
  names: oneOf('curator', 'kazoo'),
  sessionTimeout: whole(100, 999_999),
  tickTime: whole(10, 99_999),
  acl: oneOf('open', 'creator'),
}

export type ZookeeperAddress = Omit<ZookeeperOptions, 'tls'> & { readonly tls?: Keys }

/** @throws CliError; `shown` is the URL without its password. */
export function parseZookeeperAddress(rest: string, shown: string): ZookeeperAddress {
  const parts = parseParts('zookeeper', rest, 'zookeeper://host:2181')
  parseAddresses(parts.hosts, 2181, shown)
  const query = parseSettings(parts, [...Object.keys(settings), ...tlsSettings], shown)
  const tls = parseTls(query, shown, undefined)
  return {
    servers: parts.hosts,
    ...(parts.path !== '' && { chroot: decoded(`/${parts.path}`, shown) }),
    ...(parts.login !== undefined && {
      auth: { scheme: 'digest', credential: decoded(parts.login, shown) } as const,
    }),
    ...parseOptions(settings, query, shown),
    ...(tls !== undefined && { tls: readKeys(tls) }),
  }
}

export async function connectZookeeper(options: ZookeeperAddress, shown: string): Promise<Connection> {
  const { zookeeper } = await import('holdfast/zookeeper')
  try {
    return { driver: zookeeper(options), close: async () => undefined }
  } catch (error) {
    throw badInput(`'${shown}': ${(error as Error).message}`)
  }
}
