// Every store a URL can name, as a user would have it: with the server's own defaults, and with a login where it knows logins.
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startConsul } from '../../support/servers/consul.js'
import { startEtcd } from '../../support/servers/etcd.js'
import { startMysql } from '../../support/servers/mysql.js'
import { startPostgres } from '../../support/servers/postgres.js'
import { startMany, startRedis } from '../../support/servers/redis.js'
import { startCluster } from '../../support/servers/redis-cluster.js'
import { startSentinel } from '../../support/servers/redis-sentinel.js'
import { startZookeeper } from '../../support/servers/zookeeper.js'

export interface Store {
  readonly url: string
  /** The same with a wrong password; undefined: this store knows none. */
  readonly wrong: string | undefined
  /** A word of the login, which must not be printed. */
  readonly secret: string | undefined
  /** Ends all its servers, without a word to their clients. Undefined: there are none. */
  readonly kill: (() => Promise<void>) | undefined
  /** Stops all its servers in the middle of whatever they do; `kill` ends them. */
  readonly pause: (() => void) | undefined
  stop(): Promise<void>
}

const wrongLogin = 'nobody:wrong-secret'
const loginFor = (url: string, login = wrongLogin) => url.replace(/:\/\/([^@/]*@)?/, `://${login}@`)

async function redis(): Promise<Store> {
  const server = await startRedis()
  return {
    ...{ url: server.url, wrong: loginFor(server.url), secret: undefined },
    ...{ kill: () => server.kill9(), pause: () => server.pause(), stop: () => server.stop() },
  }
}

async function sentinel(): Promise<Store> {
  const setup = await startSentinel({ replicas: 0 })
  const kill = async () =>
    void (await Promise.all([...setup.sentinels, ...setup.nodes].map((node) => node.kill9())))
  const pause = () => {
    for (const node of [...setup.sentinels, ...setup.nodes]) node.pause()
  }
  return {
    ...{ url: setup.url, wrong: loginFor(setup.url), secret: undefined },
    ...{ kill, pause, stop: () => setup.stop() },
  }
}

async function cluster(): Promise<Store> {
  const setup = await startCluster()
  const kill = async () => void (await Promise.all(setup.nodes.map((node) => node.kill9())))
  const pause = () => {
    for (const node of setup.nodes) node.pause()
  }
  return {
    // Nobody can say of its nodes that they are new.
    ...{
      url: `${setup.url}?quarantine=detected`,
      wrong: loginFor(`${setup.url}?quarantine=detected`),
      secret: undefined,
    },
    ...{ kill, pause, stop: () => setup.stop() },
  }
}

async function redlock(): Promise<Store> {
  const group = await startMany(3)
  const url = `redlock://${group.servers.map(({ host, port }) => `${host}:${port}`).join(',')}`
  const kill = async () => void (await Promise.all(group.servers.map((server) => server.kill9())))
  const pause = () => {
    for (const server of group.servers) server.pause()
  }
  return { url, wrong: loginFor(url), secret: undefined, kill, pause, stop: () => group.stop() }
}

async function postgres(query: string): Promise<Store> {
  const rules = mkdtempSync(join(tmpdir(), 'holdfast-hba-'))
  const file = join(rules, 'pg_hba.conf')
  writeFileSync(file, 'host all app 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust\n')
  chmodSync(rules, 0o755)
  const server = await startPostgres({ settings: { hba_file: file } })
  await server.sql("create role app login superuser password 'right-secret'")
  const of = (password: string) => loginFor(`${server.url}${query}`, `app:${password}`)
  const stop = async () => {
    await server.stop()
    rmSync(rules, { recursive: true })
  }
  return {
    ...{ url: of('right-secret'), wrong: of('wrong-secret'), secret: 'right-secret' },
    ...{ kill: () => server.kill9(), pause: () => server.pause(), stop },
  }
}

async function mysql(query: string): Promise<Store> {
  const server = await startMysql()
  await server.query("create user app@'%' identified by 'right-secret'")
  await server.query("grant all privileges on *.* to app@'%'")
  const of = (password: string) => loginFor(`${server.url}${query}`, `app:${password}`)
  return {
    ...{ url: of('right-secret'), wrong: of('wrong-secret'), secret: 'right-secret' },
    ...{ kill: () => server.kill9(), pause: () => server.pause(), stop: () => server.stop() },
  }
}

async function etcd(): Promise<Store> {
  const server = await startEtcd()
  await server.ask('/v3/auth/user/add', { name: 'root', password: 'right-secret' })
  await server.ask('/v3/auth/role/add', { name: 'root' })
  await server.ask('/v3/auth/user/grant', { user: 'root', role: 'root' })
  await server.ask('/v3/auth/enable', {})
  const of = (password: string) => `etcd://root:${password}@${server.host}:${server.port}`
  return {
    ...{ url: of('right-secret'), wrong: of('wrong-secret'), secret: 'right-secret' },
    ...{ kill: () => server.kill9(), pause: () => server.pause(), stop: () => server.stop() },
  }
}

async function zookeeper(): Promise<Store> {
  const server = await startZookeeper({ tickTime: 2_000 })
  const of = (password: string) => `zookeeper://app:${password}@${server.address}?acl=creator`
  return {
    ...{ url: of('right-secret'), wrong: of('wrong-secret'), secret: 'right-secret' },
    ...{ kill: () => server.kill9(), pause: () => server.pause(), stop: () => server.stop() },
  }
}

async function consul(): Promise<Store> {
  const [right, wrong] = ['7f5ea000-0000-4000-8000-000000000001', '7f5ea000-0000-4000-8000-000000000002']
  const acl = `acl {\n enabled = true\n default_policy = "deny"\n tokens { master = "${right}" }\n}`
  const server = await startConsul({ ttlMin: '10s', config: acl })
  const of = (token: string) => `consul://:${token}@${server.host}:${server.port}`
  return {
    ...{ url: of(right), wrong: of(wrong), secret: right },
    ...{ kill: () => server.kill9(), pause: () => server.pause(), stop: () => server.stop() },
  }
}

async function local(): Promise<Store> {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-matrix-'))
  const stop = async () => rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
  return {
    url: `local:${join(folder, 'locks')}`,
    wrong: undefined,
    secret: undefined,
    kill: undefined,
    pause: undefined,
    stop,
  }
}

export type StoreName =
  | 'local'
  | 'redis'
  | 'redis+sentinel'
  | 'redis+cluster'
  | 'redlock'
  | 'postgres'
  | 'postgres session'
  | 'mysql'
  | 'mysql session'
  | 'etcd'
  | 'zookeeper'
  | 'consul'

export const stores: Readonly<Record<StoreName, () => Promise<Store>>> = {
  local,
  redis,
  'redis+sentinel': sentinel,
  'redis+cluster': cluster,
  redlock,
  postgres: () => postgres(''),
  'postgres session': () => postgres('?strategy=session'),
  mysql: () => mysql(''),
  'mysql session': () => mysql('?strategy=session'),
  etcd,
  zookeeper,
  consul,
}

/** URLs of stores that are not there: nobody listens at port 1. */
export const absent: Readonly<Record<Exclude<StoreName, 'local'>, string>> = {
  redis: 'redis://127.0.0.1:1',
  'redis+sentinel': 'redis+sentinel://127.0.0.1:1,127.0.0.1:2/mymaster',
  'redis+cluster': 'redis+cluster://127.0.0.1:1,127.0.0.1:2',
  redlock: 'redlock://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3',
  postgres: 'postgres://app:right-secret@127.0.0.1:1/app',
  'postgres session': 'postgres://app:right-secret@127.0.0.1:1/app?strategy=session',
  mysql: 'mysql://app:right-secret@127.0.0.1:1/app',
  'mysql session': 'mysql://app:right-secret@127.0.0.1:1/app?strategy=session',
  etcd: 'etcd://127.0.0.1:1,127.0.0.1:2',
  zookeeper: 'zookeeper://127.0.0.1:1',
  consul: 'consul://127.0.0.1:1',
}
