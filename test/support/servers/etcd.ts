// etcd: one server, or a cluster whose leader can be found and hurt.
import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { until } from '../until.js'
import { unpacked } from './fetch.js'
import type { MemberCables } from './member-cables.js'
import { ask, type HttpServer, host, startHttpServer } from './over-http.js'
import { makeFolder } from './places.js'
import { freePort } from './ports.js'
import { onOtherPorts, startAll } from './process.js'

/** What Debian 12 and 13 ship. */
export type EtcdVersion = '3.4' | '3.5'

export interface EtcdOptions {
  readonly version?: EtcdVersion
  /** Further arguments of the server. */
  readonly args?: readonly string[]
  /** Serve clients over TLS with this certificate and key (paths). */
  readonly tls?: { readonly cert: string; readonly key: string }
  /** Members talk to each other through these. */
  readonly cables?: MemberCables
}

export interface EtcdServer extends HttpServer {
  readonly version: EtcdVersion
  /** One request to the JSON gateway: `ask('/v3/kv/range', { key })`. Rejects on any status but 200. */
  ask(path: string, body: object, signal?: AbortSignal): Promise<Record<string, unknown>>
  /** Runs etcdctl against this server; resolves with what it printed. */
  ctl(...words: readonly string[]): Promise<string>
}

export interface EtcdCluster extends AsyncDisposable {
  readonly servers: readonly EtcdServer[]
  readonly urls: readonly string[]
  /** The one that a majority follows; waits for it. */
  leader(): Promise<EtcdServer>
  stop(): Promise<void>
}

/** Where the programs are, for those who start `etcdctl` themselves. */
export async function etcdctl(version: EtcdVersion = '3.5'): Promise<string> {
  return join((await unpacked(version === '3.4' ? 'etcd34' : 'etcd35')).root, 'usr/bin/etcdctl')
}

export async function startEtcd(options: EtcdOptions = {}): Promise<EtcdServer> {
  const { servers } = await startEtcdCluster(1, options)
  return servers[0] as EtcdServer
}

/** Starts `n` servers that make one cluster; resolves when it has a leader and takes writes. */
export async function startEtcdCluster(n = 3, options: EtcdOptions = {}): Promise<EtcdCluster> {
  return onOtherPorts(async () => {
    const members = await Promise.all(
      Array.from({ length: n }, async (_, i) => ({
        name: `n${i + 1}`,
        client: await freePort(),
        peer: await freePort(),
        address: options.cables?.address(i) ?? host,
      })),
    )
    for (const [i, { peer }] of members.entries()) await options.cables?.lay(i, peer)
    const cluster = members.map(({ name, peer, address }) => `${name}=http://${address}:${peer}`).join(',')
    const { servers, stop } = await startAll(members.map((member) => startMember(member, cluster, options)))
    const leader = () => findLeader(servers)
    return { servers, urls: servers.map(({ url }) => url), leader, stop, [Symbol.asyncDispose]: stop }
  })
}

async function findLeader(servers: readonly EtcdServer[]): Promise<EtcdServer> {
  const votes = async () => {
    const seen = new Map<string, number>()
    const ids = new Map<string, EtcdServer>()
    for (const server of servers.filter(({ running }) => running)) {
      const status = await within(2_000, server.ask('/v3/maintenance/status', {})).catch(() => undefined)
      const { leader, header } = (status ?? {}) as { leader?: string; header?: { member_id?: string } }
      if (header?.member_id !== undefined) ids.set(header.member_id, server)
      if (leader !== undefined && leader !== '0') seen.set(leader, (seen.get(leader) ?? 0) + 1)
    }
    const [id] = [...seen].find(([, count]) => count > servers.length / 2) ?? []
    return id !== undefined && (ids.get(id) ?? false)
  }
  return (await until(votes, {
    within: 60_000,
    every: 50,
    what: 'a leader of the etcd cluster',
  })) as EtcdServer
}

interface Member {
  readonly name: string
  readonly client: number
  readonly peer: number
  /** Where the others find it. */
  readonly address: string
}

async function startMember(
  { name, client, peer, address }: Member,
  cluster: string,
  options: EtcdOptions,
): Promise<EtcdServer> {
  const { version = '3.5', tls, args = [] } = options
  const { root } = await unpacked(version === '3.4' ? 'etcd34' : 'etcd35')
  const folder = makeFolder('etcd')
  const url = `${tls ? 'https' : 'http'}://${host}:${client}`
  const log = join(folder.path, 'log')
  writeFileSync(log, '')
  const program = {
    name: `etcd ${version} ${name} on port ${client}`,
    command: join(root, 'usr/bin/etcd'),
    args: [
      ...['--name', name, '--data-dir', join(folder.path, 'data')],
      ...['--listen-client-urls', url, '--advertise-client-urls', url],
      ...['--listen-peer-urls', `http://${host}:${peer}`],
      ...['--initial-advertise-peer-urls', `http://${address}:${peer}`, '--initial-cluster', cluster],
      // Elections as quick as the tests, and not for every pause of a busy machine; leases have a least ttl of one second with that.
      ...['--heartbeat-interval', '100', '--election-timeout', '600'],
      // Killed processes lose nothing by it; that takes a power cut.
      '--unsafe-no-fsync',
      ...(tls ? ['--cert-file', tls.cert, '--key-file', tls.key] : []),
      ...args,
    ],
    env: {},
    folder: folder.path,
    log,
    ready: (logged: string) =>
      /ready to serve client requests|serving (?:insecure )?client (?:requests|traffic)/.test(logged),
    readyWithin: 120_000,
  }
  const server = await startHttpServer(program, url, folder)
  return Object.assign(server, {
    version,
    ask: async (path: string, body: object, signal?: AbortSignal) =>
      (await ask(`${url}${path}`, { body: JSON.stringify(body), signal })) as Record<string, unknown>,
    ctl: (...words: readonly string[]) => run(join(root, 'usr/bin/etcdctl'), ['--endpoints', url, ...words]),
  })
}

/** Runs a program to its end; rejects with its last words when it fails. */
export function run(command: string, args: readonly string[]): Promise<string> {
  return new Promise((resolve, reject) => {
    execFile(
      command,
      args,
      { env: { PATH: process.env['PATH'] ?? '' }, timeout: 30_000 },
      (error, out, err) => {
        if (error) reject(new Error(`${command} ${args.join(' ')}: ${error.message}\n${err}`))
        else resolve(out)
      },
    )
  })
}

async function within<T>(ms: number, work: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(reject, ms, new Error('late'))
  })
  return Promise.race([work, late]).finally(() => clearTimeout(timer))
}
