/**
 * ZooKeeper URLs:
 *
 * ```
 * zookeeper://[user:password@]h1[:2181],h2,h3[/chroot]      the login is a digest
 * ?strategy=simple  &names=kazoo  &sessionTimeout=10000  &tickTime=2000  &acl=creator  &tls=true  &ca=FILE
 * ```
 */
import { readFileSync } from 'node:fs'
import type { ZookeeperOptions } from 'holdfast/zookeeper'
import type { Connection } from './connect.js'
import { badInput } from './exit.js'

type Settings = Pick<ZookeeperOptions, 'strategy' | 'names' | 'sessionTimeout' | 'tickTime' | 'acl' | 'tls'>

/** What a URL may say of the driver's options. `undefined`: not in this form. */
const settings: Readonly<Record<string, (text: string) => Settings | undefined>> = {
  strategy: (strategy) => (strategy === 'line' || strategy === 'simple' ? { strategy } : undefined),
  names: (names) => (names === 'curator' || names === 'kazoo' ? { names } : undefined),
  sessionTimeout: (text) => (/^\d{3,6}$/.test(text) ? { sessionTimeout: Number(text) } : undefined),
  tickTime: (text) => (/^\d{2,5}$/.test(text) ? { tickTime: Number(text) } : undefined),
  tls: (tls) => (tls === 'true' ? { tls: {} } : tls === 'false' ? {} : undefined),
  ca: (file) => ({ tls: { ca: readFileSync(file) } }),
  acl: (acl) => (acl === 'open' || acl === 'creator' ? { acl } : undefined),
}

/** @throws CliError; `shown` is the URL without its password. */
export function zookeeperPlace(rest: string, shown: string): ZookeeperOptions {
  const parts = /^\/\/(?:([^@/?]*)@)?([^/?#@]+)(\/[^?#]*)?(?:\?([^#]*))?$/.exec(rest)
  if (parts === null) throw badInput(`'${shown}' names no host; write zookeeper://host:2181`)
  const [, user, hosts = '', path = '', query = ''] = parts
  const chroot = path === '' || path === '/' ? {} : { chroot: decoded(path, shown) }
  const auth =
    user === undefined ? {} : { auth: { scheme: 'digest', credential: decoded(user, shown) } as const }
  return { servers: hosts, ...chroot, ...auth, ...optionsOf(query, shown) }
}

function optionsOf(query: string, shown: string): Settings {
  let all: Settings = {}
  for (const [key, text] of new URLSearchParams(query)) {
    const read = Object.hasOwn(settings, key) ? settings[key] : undefined
    if (read === undefined) {
      throw badInput(`'${shown}' has the option '${key}'; known are ${Object.keys(settings).join(', ')}`)
    }
    const value = readBy(read, text, shown)
    if (value === undefined) throw badInput(`'${shown}': ${key} cannot be '${text}'`)
    all = { ...all, ...value, ...(value.tls && { tls: { ...all.tls, ...value.tls } }) }
  }
  return all
}

function readBy(read: (text: string) => Settings | undefined, text: string, shown: string) {
  try {
    return read(text)
  } catch (error) {
    throw badInput(`'${shown}': ${(error as Error).message}`)
  }
}

function decoded(text: string, shown: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    throw badInput(`'${shown}' has a percent sign that encodes nothing; write it as %25`)
  }
}

export async function connectZookeeper(options: ZookeeperOptions, shown: string): Promise<Connection> {
  const { zookeeper } = await import('holdfast/zookeeper')
  try {
    return { driver: zookeeper(options), close: async () => undefined }
  } catch (error) {
    throw badInput(`'${shown}': ${(error as Error).message}`)
  }
}
