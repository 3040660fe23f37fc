/** The options of `etcd()`, checked once. */
import { checkKnown } from '../../core/known-options.js'
import { describe } from '../../core/name.js'
import type { TlsOptions } from '../kit/http.js'
import { checkModule, type GrpcModule } from './grpc/client.js'

export interface EtcdOptions {
  /**
   * Addresses of members of one cluster: `http://10.0.0.1:2379`, `https://…`, or `10.0.0.1` (port 2379). One address is used at a time; when
   * it fails, the next.
   */
  readonly endpoints: string | readonly string[]
  /** With `password`, where the cluster requires a login. The user needs read and write permission for everything under `prefix`. */
  readonly username?: string
  readonly password?: string
  /** Keys and certificates for `https://` endpoints. */
  readonly tls?: TlsOptions
  /**
   * The prefix of every key. Default `holdfast/`: the mutex `a` is then the lock `holdfast/a` of `etcdctl lock` and of etcd's Go package
   * `concurrency`. With `''` the names are identical.
   */
  readonly prefix?: string
  /**
   * `process` (default): one lease for all locks of the same ttl in this process, kept alive by one request. `lock`: each lock has
   * its own lease, so that an operator can revoke a single lock; this costs two more requests per lock.
   */
  readonly lease?: 'process' | 'lock'
  /**
   * How long one endpoint may take to answer, in ms; a login at the last endpoint left has five times as long. Default 2_000. After temporary
   * trouble the request is retried while the wait lasts.
   */
  readonly requestTimeout?: number
  /**
   * The package `@grpc/grpc-js`, 1.9.15 or newer: the driver then speaks gRPC, which takes less of the server's time and two connections for
   * any number of locks. Default: the JSON gateway, which needs no package.
   * @example
   * ```ts
   * import * as grpc from '@grpc/grpc-js'
   * import { etcd } from 'holdfast/etcd'
   *
   * const store = etcd({ endpoints: '10.0.0.1:2379', grpc })
   * ```
   */
  readonly grpc?: GrpcModule
}

export interface Settings {
  readonly endpoints: readonly URL[]
  readonly login: { readonly name: string; readonly password: string } | undefined
  readonly tls: TlsOptions | undefined
  readonly prefix: string
  readonly ownLeases: boolean
  readonly requestTimeout: number
  readonly grpc: GrpcModule | undefined
}

const known: readonly (keyof EtcdOptions)[] = [
  'endpoints',
  'username',
  'password',
  'tls',
  'prefix',
  'lease',
  'requestTimeout',
  'grpc',
]

/** @throws TypeError, RangeError that names the value given */
export function parseOptions(options: EtcdOptions): Settings {
  if (typeof options !== 'object' || options === null) {
    throw new TypeError(
      `etcd() takes options such as { endpoints: '127.0.0.1:2379' }, got ${describe(options)}`,
    )
  }
  checkKnown('etcd()', options, known)
  const { endpoints, username, password, tls, prefix = 'holdfast/', lease = 'process' } = options
  const given = typeof endpoints === 'string' ? [endpoints] : endpoints
  if (!Array.isArray(given) || given.length === 0) {
    throw new TypeError(`etcd: endpoints must be one address or a list of them, got ${describe(endpoints)}`)
  }
  if ((username === undefined) !== (password === undefined)) {
    throw new TypeError('etcd: username and password belong together; give both or neither')
  }
  if (typeof prefix !== 'string')
    throw new TypeError(`etcd: prefix must be a string, got ${describe(prefix)}`)
  if (lease !== 'process' && lease !== 'lock') {
    throw new RangeError(`etcd: lease must be 'process' or 'lock', got ${describe(lease)}`)
  }
  if (options.grpc !== undefined) checkModule(options.grpc)
  return {
    endpoints: given.map(parseEndpoint),
    login: username === undefined || password === undefined ? undefined : { name: username, password },
    tls,
    prefix,
    ownLeases: lease === 'lock',
    requestTimeout: parseTimeout(options.requestTimeout ?? 2_000),
    grpc: options.grpc,
  }
}

function parseEndpoint(text: unknown): URL {
  if (typeof text !== 'string')
    throw new TypeError(`etcd: an endpoint must be a string, got ${describe(text)}`)
  const whole = /^[a-z][a-z0-9+.-]*:\/\//i.test(text) ? text : `http://${text}`
  const url = URL.canParse(whole) ? new URL(whole) : undefined
  if (url === undefined || (url.protocol !== 'http:' && url.protocol !== 'https:') || url.hostname === '') {
    throw new RangeError(`etcd: ${describe(text)} is not an endpoint; write host:2379 or https://host:2379`)
  }
  if (url.username !== '' || url.password !== '') {
    throw new RangeError('etcd: an endpoint must not contain a user; pass username and password as options')
  }
  // `URL` drops the default port of a scheme, which is not etcd's.
  if (url.port === '' && !/:\d+\/?$/.test(whole)) url.port = '2379'
  return url
}

function parseTimeout(value: unknown): number {
  if (typeof value !== 'number')
    throw new TypeError(`etcd: requestTimeout must be a number, got ${describe(value)}`)
  if (!Number.isInteger(value) || value < 10 || value > 600_000) {
    throw new RangeError(`etcd: requestTimeout must be a whole number from 10 to 600000 ms, got ${value}`)
  }
  return value
}
