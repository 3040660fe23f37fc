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
import { flagIn, keysOf, type Tls, tlsOf, tlsSettings } from './tls.js'
import { addressesOf, decoded, hostPort, type Login, loginOf, partsOf, settingsOf } from './url.js'

export interface EtcdPlace {
  /** `host:port` */
  readonly hosts: readonly string[]
  readonly tls: Tls | undefined
  readonly login: { readonly name: string; readonly password: string } | undefined
  readonly prefix: string | undefined
  readonly grpc: boolean
}

/** @throws CliError; `shown` is the URL without its password */
export function etcdPlace(rest: string, shown: string): EtcdPlace {
  const parts = partsOf('etcd', rest, 'etcd://host:2379')
  const path = decoded(parts.path, shown)
  if (path !== '')
    throw badInput(`'${shown}' has the path '/${path}'; write ?prefix=${path}/ for keys of their own`)
  const own = loginOf(parts, shown)
  const { user, password } = parts.login === undefined ? loginOfEnvironment() : own
  if ((user === undefined) !== (password === undefined)) {
    throw badInput(`'${shown}' has half a login; write user:password@ before the hosts`)
  }
  const query = settingsOf(parts, ['prefix', 'grpc', ...tlsSettings], shown)
  return {
    hosts: addressesOf(parts.hosts, 2379, shown).map(hostPort),
    tls: tlsOf(query, shown, undefined),
    login: user === undefined || password === undefined ? undefined : { name: user, password },
    prefix: query.get('prefix'),
    grpc: flagIn(query, 'grpc', shown) ?? false,
  }
}

function loginOfEnvironment(): Login {
  const { ETCDCTL_USER = '', ETCDCTL_PASSWORD } = process.env
  const [user = '', ...rest] = ETCDCTL_USER.split(':')
  const password = rest.length > 0 ? rest.join(':') : ETCDCTL_PASSWORD
  const none = user === '' || password === undefined
  return none ? { user: undefined, password: undefined } : { user, password }
}

/** @throws CliError */
export function etcdTarget(rest: string, shown: string): Opening {
  const { hosts, tls, login, prefix, grpc } = etcdPlace(rest, shown)
  const connect = async () => {
    const { etcd } = await import('holdfast/etcd')
    const driver = etcd({
      endpoints: hosts.map((host) => `${tls === undefined ? 'http' : 'https'}://${host}`),
      ...(login !== undefined && { username: login.name, password: login.password }),
      ...(prefix !== undefined && { prefix }),
      ...(tls !== undefined && { tls: keysOf(tls) }),
      ...(grpc && { grpc: await grpcPackage() }),
    })
    return { driver, close: async () => undefined }
  }
  return { connect, tls: tls && keysOf(tls) }
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
