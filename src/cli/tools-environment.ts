/**
 * Completes a URL from the environment variables that psql, mysql, etcdctl and consul read.
 *
 * | URL | |
 * |---|---|
 * | `postgres:` | `PGHOST`, `PGPORT`, `PGUSER`, `PGDATABASE`, `PGSSLMODE`, `PGSSLROOTCERT`, `PGSSLCERT`, `PGSSLKEY` |
 * | `mysql:` | `MYSQL_HOST`, `MYSQL_TCP_PORT` |
 * | `etcd:` | `ETCDCTL_ENDPOINTS`, `ETCDCTL_CACERT`, `ETCDCTL_CERT`, `ETCDCTL_KEY` |
 * | `consul:` | `CONSUL_HTTP_ADDR` |
 *
 * Passwords and tokens never become part of a URL here: they are read where they are used.
 */
import { badInput } from './exit.js'
import { plain } from './print.js'
import type { Tls } from './tls.js'
import {
  checkFiles,
  checkHost,
  checkPort,
  type Environment,
  endpoints,
  type FileVariables,
  filesFrom,
} from './tools-values.js'

interface Loose {
  readonly login: string | undefined
  readonly hosts: string
  readonly path: string
  readonly search: string
}

/** As in `url.ts`, but every part is optional. */
const form = /^(?:\/\/(?:([^@/?#]*)@)?([^/?#@]*))?(?:\/([^?#@]*))?(?:\?([^#@]*))?$/

/** @returns the same URL if there is nothing to add. @throws CliError for an invalid variable. */
export function withToolsEnvironment(url: string, env: Environment = process.env): string {
  const [, scheme = '', rest = ''] = /^([a-z][a-z0-9+.-]*):(.*)$/is.exec(url) ?? []
  const key = scheme.toLowerCase()
  const fill = Object.hasOwn(fills, key) ? fills[key] : undefined
  const [whole, login, hosts = '', path = '', search = ''] = form.exec(rest) ?? []
  // The URL's parser reports an unreadable URL later.
  if (fill === undefined || whole === undefined) return url
  const parts = { login, hosts, path, search }
  const filled = fill(parts, env)
  if (
    filled.hosts === '' ||
    (Object.keys(parts) as (keyof Loose)[]).every((key) => filled[key] === parts[key])
  )
    return url
  const who = filled.login === undefined ? '' : `${filled.login}@`
  return `${scheme}://${who}${filled.hosts}${filled.path === '' ? '' : `/${filled.path}`}${filled.search === '' ? '' : `?${filled.search}`}`
}

const fills: Readonly<Record<string, (parts: Loose, env: Environment) => Loose>> = {
  postgres: fillPostgres,
  postgresql: fillPostgres,
  mysql: (parts, env) => ({
    ...parts,
    hosts: hostFromEnvironment(parts, env, 'MYSQL_HOST', 'MYSQL_TCP_PORT'),
  }),
  etcd: fillEtcd,
  consul: fillConsul,
}

function fillPostgres(parts: Loose, env: Environment): Loose {
  const { PGUSER, PGDATABASE, PGSSLMODE = '' } = env
  if (!['', 'disable', 'allow', 'prefer', 'require', 'verify-ca', 'verify-full'].includes(PGSSLMODE))
    throw badInput(
      `PGSSLMODE=${plain(PGSSLMODE)} is none that PostgreSQL knows; write disable, require or verify-full`,
    )
  const secure = ['require', 'verify-ca', 'verify-full'].includes(PGSSLMODE)
  return {
    login: parts.login ?? (PGUSER ? encodeURIComponent(PGUSER) : undefined),
    hosts: hostFromEnvironment(parts, env, 'PGHOST', 'PGPORT'),
    path: parts.path || (PGDATABASE ? encodeURIComponent(PGDATABASE) : ''),
    search: withTls(parts.search, secure || undefined, () => {
      const { ca, ...own } = filesFrom(env, postgresFiles)
      return ca === undefined || ca === 'system' ? own : { ...own, ca }
    }),
  }
}

function fillEtcd(parts: Loose, env: Environment): Loose {
  const { ETCDCTL_ENDPOINTS, ETCDCTL_CACERT, ETCDCTL_CERT } = env
  const given =
    parts.hosts === '' && ETCDCTL_ENDPOINTS ? endpoints('ETCDCTL_ENDPOINTS', ETCDCTL_ENDPOINTS) : undefined
  // With a certificate, etcdctl treats an endpoint without a scheme as one with TLS.
  const certified = ETCDCTL_CACERT || ETCDCTL_CERT ? true : undefined
  const secure = given?.secure === false && certified === undefined ? undefined : (given?.secure ?? certified)
  const files = () => filesFrom(env, etcdFiles)
  return { ...parts, hosts: given?.hosts ?? parts.hosts, search: withTls(parts.search, secure, files) }
}

function fillConsul(parts: Loose, env: Environment): Loose {
  const { CONSUL_HTTP_ADDR } = env
  if (parts.hosts !== '' || !CONSUL_HTTP_ADDR) return parts
  const { hosts, secure } = endpoints('CONSUL_HTTP_ADDR', CONSUL_HTTP_ADDR)
  const files = () => filesFrom(env, consulFiles)
  return { ...parts, hosts, search: withTls(parts.search, secure || undefined, files) }
}

const postgresFiles: FileVariables = { ca: 'PGSSLROOTCERT', cert: 'PGSSLCERT', key: 'PGSSLKEY' }
const etcdFiles: FileVariables = { ca: 'ETCDCTL_CACERT', cert: 'ETCDCTL_CERT', key: 'ETCDCTL_KEY' }
export const consulFiles: FileVariables = {
  ca: 'CONSUL_CACERT',
  cert: 'CONSUL_CLIENT_CERT',
  key: 'CONSUL_CLIENT_KEY',
}

const fileVariables: Readonly<Record<string, FileVariables>> = {
  postgres: postgresFiles,
  postgresql: postgresFiles,
  etcd: etcdFiles,
  consul: consulFiles,
}

/**
 * Reads the files that the environment has added.
 * @param whole what {@link withToolsEnvironment} has made of `url`
 * @throws CliError with the name of the variable
 */
export function checkToolsFiles(url: string, whole: string, env: Environment = process.env): void {
  const names = fileVariables[url.slice(0, url.indexOf(':')).toLowerCase()]
  if (names === undefined || whole === url) return
  const added = (['ca', 'cert', 'key'] as const).filter((name) => {
    const setting = new RegExp(`[?&]${name}=`)
    return setting.test(whole) && !setting.test(url)
  })
  const files: Tls = Object.fromEntries(added.map((name) => [name, env[names[name]]]))
  checkFiles(files, names)
}

/** The only host, plus a port if the URL has none. */
function hostFromEnvironment({ hosts }: Loose, env: Environment, hostName: string, portName: string): string {
  const [host = '', port] = [env[hostName], env[portName]]
  if (hosts === '') checkHost(hostName, host, portName)
  const named = hosts !== '' ? hosts : host
  const bare = named.includes(':') && hosts === '' ? `[${named}]` : named
  if (bare === '' || !port || bare.includes(',') || /^(\[[^\]]*\]|[^:[]*):/.test(bare)) return bare
  checkPort(portName, port)
  return `${bare}:${port}`
}

/**
 * A URL with any TLS setting takes none from the environment.
 * @param secure undefined: nothing decides for or against TLS
 * @param files called only if they are used
 */
function withTls(search: string, secure: boolean | undefined, files: () => Tls): string {
  const own = /(^|&)(tls|ca|cert|key)(=|&|$)/.test(search)
  if (own || secure === undefined) return search
  if (!secure) return joined(search, 'tls=false')
  const named = Object.entries(files()).map(([what, file]) => `${what}=${encodeURIComponent(file)}`)
  return joined(search, 'tls=true', ...named)
}

function joined(...settings: readonly string[]): string {
  return settings.filter((setting) => setting !== '').join('&')
}
