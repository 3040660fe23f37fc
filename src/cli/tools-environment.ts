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

interface Loose {
  readonly login: string | undefined
  readonly hosts: string
  readonly path: string
  readonly search: string
}

type Environment = Readonly<Record<string, string | undefined>>

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
  const { PGUSER, PGDATABASE, PGSSLMODE = '', PGSSLROOTCERT, PGSSLCERT, PGSSLKEY } = env
  if (!['', 'disable', 'allow', 'prefer', 'require', 'verify-ca', 'verify-full'].includes(PGSSLMODE))
    throw badInput(
      `PGSSLMODE=${plain(PGSSLMODE)} is none that PostgreSQL knows; write disable, require or verify-full`,
    )
  const secure = ['require', 'verify-ca', 'verify-full'].includes(PGSSLMODE)
  const ca = PGSSLROOTCERT === 'system' ? undefined : PGSSLROOTCERT
  return {
    login: parts.login ?? (PGUSER ? encodeURIComponent(PGUSER) : undefined),
    hosts: hostFromEnvironment(parts, env, 'PGHOST', 'PGPORT'),
    path: parts.path || (PGDATABASE ? encodeURIComponent(PGDATABASE) : ''),
    search: withTls(parts.search, secure || undefined, { ca, cert: PGSSLCERT, key: PGSSLKEY }),
  }
}

function fillEtcd(parts: Loose, env: Environment): Loose {
  const { ETCDCTL_ENDPOINTS, ETCDCTL_CACERT, ETCDCTL_CERT, ETCDCTL_KEY } = env
  const files = { ca: ETCDCTL_CACERT, cert: ETCDCTL_CERT, key: ETCDCTL_KEY }
  const given =
    parts.hosts === '' && ETCDCTL_ENDPOINTS ? endpoints('ETCDCTL_ENDPOINTS', ETCDCTL_ENDPOINTS) : undefined
  // With a certificate, etcdctl treats an endpoint without a scheme as one with TLS.
  const certified = ETCDCTL_CACERT || ETCDCTL_CERT ? true : undefined
  const secure = given?.secure === false && certified === undefined ? undefined : (given?.secure ?? certified)
  return { ...parts, hosts: given?.hosts ?? parts.hosts, search: withTls(parts.search, secure, files) }
}

function fillConsul(parts: Loose, env: Environment): Loose {
  const { CONSUL_HTTP_ADDR, CONSUL_CACERT, CONSUL_CLIENT_CERT, CONSUL_CLIENT_KEY } = env
  if (parts.hosts !== '' || !CONSUL_HTTP_ADDR) return parts
  const { hosts, secure } = endpoints('CONSUL_HTTP_ADDR', CONSUL_HTTP_ADDR)
  const files = { ca: CONSUL_CACERT, cert: CONSUL_CLIENT_CERT, key: CONSUL_CLIENT_KEY }
  return { ...parts, hosts, search: withTls(parts.search, secure || undefined, files) }
}

/** The only host, plus a port if the URL has none. */
function hostFromEnvironment({ hosts }: Loose, env: Environment, hostName: string, portName: string): string {
  const [host, port] = [env[hostName], env[portName]]
  if (hosts === '' && host !== undefined && host !== '' && !/^[^\s,/?#@[\]]+$/.test(host)) {
    throw badInput(
      `${hostName}=${plain(host)} is not a host that holdfast can connect to; it takes one name or address`,
    )
  }
  const named = hosts !== '' ? hosts : (host ?? '')
  const bare = named.includes(':') && hosts === '' ? `[${named}]` : named
  if (bare === '' || !port || bare.includes(',') || /^(\[[^\]]*\]|[^:[]*):/.test(bare)) return bare
  if (!/^\d{1,5}$/.test(port)) throw badInput(`${portName}=${plain(port)} is not the number of a port`)
  return `${bare}:${port}`
}

/** `secure` is undefined if no endpoint has a scheme. */
function endpoints(name: string, text: string): { hosts: string; secure: boolean | undefined } {
  const all = text.split(',').map((one) => /^(?:(https?):\/\/)?([^\s/?#@]+)\/?$/i.exec(one.trim()))
  const schemes = new Set(all.map((one) => one?.[1]?.toLowerCase()))
  if (all.includes(null) || schemes.size > 1) {
    throw badInput(
      `${name} cannot be read; holdfast takes host:port, all with http://, all with https:// or all with neither, between commas`,
    )
  }
  const [scheme] = schemes
  return {
    hosts: all.map((one) => one?.[2]).join(','),
    secure: scheme === undefined ? undefined : scheme === 'https',
  }
}

interface Files {
  readonly ca: string | undefined
  readonly cert: string | undefined
  readonly key: string | undefined
}

/** A URL with any TLS setting takes none from the environment. `secure` is undefined if nothing decides for or against TLS. */
function withTls(search: string, secure: boolean | undefined, { ca, cert, key }: Files): string {
  const reply = /(^|&)(tls|ca|cert|key)(=|&|$)/.test(search)
  if (reply || secure === undefined) return search
  if (!secure) return joined(search, 'tls=false')
  const files = Object.entries({ ca, cert, key }).flatMap(([what, file]) =>
    file ? [`${what}=${encodeURIComponent(file)}`] : [],
  )
  return joined(search, 'tls=true', ...files)
}

function joined(...settings: readonly string[]): string {
  return settings.filter((setting) => setting !== '').join('&')
}
