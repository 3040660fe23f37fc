/**
 * ```
 * etcd://[user:password@]h1[:2379],h2,h3
 * ?prefix=holdfast/  &tls=true  &ca=FILE  &cert=FILE  &key=FILE  &grpc=true
 * ```
 * `grpc=true` needs the package `@grpc/grpc-js`; without it the commands use etcd's JSON gateway. `doctor` examines the server over the
 * gateway in either case.
 *
 * A login missing from the URL comes from `ETCDCTL_USER` (`user:password`, or the user alone with `ETCDCTL_PASSWORD`).
 */
import type { Opening } from './connect.js'
import { badInput, CliError, exits } from './exit.js'
import { plain } from './print.js'
import { parseFlag, parseTls, readKeys, type Tls, tlsSettings } from './tls.js'
import {
  decoded,
  hostPort,
  type Login,
  parseAddresses,
  parseLogin,
  parseParts,
  parseSettings,
} from './url.js'

export interface EtcdAddress {
  /** `host:port` */
  readonly hosts: readonly string[]
  readonly tls: Tls | undefined
  readonly login: { readonly name: string; readonly password: string } | undefined
  readonly prefix: string | undefined
  readonly grpc: boolean
}

/** @throws CliError; `shown` is the URL without its password */
export function parseEtcdAddress(rest: string, shown: string): EtcdAddress {
  const parts = parseParts('etcd', rest, 'etcd://host:2379')
  const path = decoded(parts.path, shown)
  if (path !== '')
    throw badInput(`'${shown}' has the path '/${path}'; write ?prefix=${path}/ for keys of their own`)
  const own = parseLogin(parts, shown)
  const { user, password } = parts.login === undefined ? loginFromEnvironment() : own
  if ((user === undefined) !== (password === undefined)) {
    throw badInput(`'${shown}' has half a login; write user:password@ before the hosts`)
  }
  const query = parseSettings(parts, ['prefix', 'grpc', ...tlsSettings], shown)
  return {
    hosts: parseAddresses(parts.hosts, 2379, shown).map(hostPort),
    tls: parseTls(query, shown, undefined),
    login: user === undefined || password === undefined ? undefined : { name: user, password },
    prefix: query.get('prefix'),
    grpc: parseFlag(query, 'grpc', shown) ?? false,
  }
}

/** @throws CliError for half a login; etcdctl would ask for the password. */
function loginFromEnvironment(): Login {
  const { ETCDCTL_USER = '', ETCDCTL_PASSWORD } = process.env
  if (ETCDCTL_USER === '') return { user: undefined, password: undefined }
  const [user = '', ...rest] = ETCDCTL_USER.split(':')
  const password = rest.length > 0 ? rest.join(':') : ETCDCTL_PASSWORD || undefined
  if (user === '') throw badInput('ETCDCTL_USER has no user before the colon; write user:password')
  if (password === undefined)
    throw badInput(
      `ETCDCTL_USER=${plain(user)} has no password; write user:password, or set ETCDCTL_PASSWORD`,
    )
  return { user, password }
}

/** @throws CliError */
export function etcdTarget(rest: string, shown: string): Opening {
  const { hosts, tls, login, prefix, grpc } = parseEtcdAddress(rest, shown)
  const connect = async () => {
    const { etcd } = await import('holdfast/etcd')
    const driver = etcd({
      endpoints: hosts.map((host) => `${tls === undefined ? 'http' : 'https'}://${host}`),
      ...(login !== undefined && { username: login.name, password: login.password }),
      ...(prefix !== undefined && { prefix }),
      ...(tls !== undefined && { tls: readKeys(tls) }),
      ...(grpc && { grpc: await grpcPackage() }),
    })
    return { driver, close: async () => undefined }
  }
  return { connect, tls: tls && readKeys(tls) }
}

async function grpcPackage() {
  return import('@grpc/grpc-js').catch((error: unknown) => {
    if ((error as { code?: unknown }).code !== 'ERR_MODULE_NOT_FOUND') throw error
    throw new CliError(
      exits.unavailable,
      'an etcd: URL with grpc=true needs the package @grpc/grpc-js, which is not installed; npm install @grpc/grpc-js',
    )
  })
}
