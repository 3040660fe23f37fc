// etcd: one server, or a cluster whose leader can be found and hurt.
import { execFile } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { until } from '../until.js'
import { unpacked } from './fetch.js'
import { makeFolder, type WorkFolder } from './places.js'
import { freePort } from './ports.js'
import { AddressInUse, launch, type Running } from './process.js'

/** What Debian 12 and 13 ship. */
export type EtcdVersion = '3.4' | '3.5'

export interface EtcdOptions {
  readonly version?: EtcdVersion
  /** Further arguments of the server. */
  readonly args?: readonly string[]
  /** Serve clients over TLS with this certificate and key (paths). */
  readonly tls?: { readonly cert: string; readonly key: string }
}

export interface EtcdServer extends AsyncDisposable {
  readonly version: EtcdVersion
  readonly host: string
  /** For clients; the same over restarts. */
  readonly port: number
  readonly url: string
  /** Of the present process; throws while the server is down. */
  readonly pid: number
  readonly running: boolean
  log(): string
  /** One request to the JSON gateway: `ask('/v3/kv/range', { key })`. Rejects on any status but 200. */
  ask(path: string, body: object, signal?: AbortSignal): Promise<Record<string, unknown>>
  /** Runs etcdctl against this server; resolves with what it printed. */
  ctl(...words: readonly string[]): Promise<string>
  kill9(): Promise<void>
  /** Same ports and data. */
  restart(): Promise<void>
  pause(): void
  resume(): void
  stop(): Promise<void>
}

export interface EtcdCluster extends AsyncDisposable {
  readonly servers: readonly EtcdServer[]
  readonly urls: readonly string[]
  /** The one that a majority follows; waits for it. */
  leader(): Promise<EtcdServer>
  stop(): Promise<void>
}

const host = '127.0.0.1'

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
  for (let tries = 1; ; tries++) {
    const members = await Promise.all(
      Array.from({ length: n }, async (_, i) => ({
        name: `n${i + 1}`,
        client: await freePort(),
        peer: await freePort(),
      })),
    )
    const cluster = members.map(({ name, peer }) => `${name}=http://${host}:${peer}`).join(',')
    const started = await Promise.allSettled(members.map((member) => startMember(member, cluster, options)))
    const servers = started.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []))
    const stop = async () => void (await Promise.all(servers.map((server) => server.stop())))
    const failed = started.find((one) => one.status === 'rejected')
    if (failed === undefined) {
      const leader = () => leaderOf(servers)
      return { servers, urls: servers.map(({ url }) => url), leader, stop, [Symbol.asyncDispose]: stop }
    }
    await stop()
    if (tries === 5 || !(failed.reason instanceof AddressInUse)) throw failed.reason
  }
}

async function leaderOf(servers: readonly EtcdServer[]): Promise<EtcdServer> {
  const votes = async () => {
    const seen = new Map<string, number>()
    const ids = new Map<string, EtcdServer>()
    for (const server of servers.filter(({ running }) => running)) {
      const status = await within(500, server.ask('/v3/maintenance/status', {})).catch(() => undefined)
      const { leader, header } = (status ?? {}) as { leader?: string; header?: { member_id?: string } }
      if (header?.member_id !== undefined) ids.set(header.member_id, server)
      if (leader !== undefined && leader !== '0') seen.set(leader, (seen.get(leader) ?? 0) + 1)
    }
    const [id] = [...seen].find(([, count]) => count > servers.length / 2) ?? []
    return id !== undefined && (ids.get(id) ?? false)
  }
  return (await until(votes, {
    within: 15_000,
    every: 50,
    what: 'a leader of the etcd cluster',
  })) as EtcdServer
}

interface Member {
  readonly name: string
  readonly client: number
  readonly peer: number
}

async function startMember(
  { name, client, peer }: Member,
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
      ...['--initial-advertise-peer-urls', `http://${host}:${peer}`, '--initial-cluster', cluster],
      // Elections as quick as the tests; leases then have a least ttl of one second.
      ...['--heartbeat-interval', '50', '--election-timeout', '300'],
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
    readyWithin: 30_000,
  }
  try {
    return controls(await launch(program), () => launch(program), { version, url, client, folder, log, root })
  } catch (error) {
    await folder.remove()
    throw error
  }
}

interface Setup {
  readonly version: EtcdVersion
  readonly url: string
  readonly client: number
  readonly folder: WorkFolder
  readonly log: string
  readonly root: string
}

function controls(first: Running, launchAgain: () => Promise<Running>, setup: Setup): EtcdServer {
  const { version, url, client, folder, log, root } = setup
  let running = first
  let stopped: Promise<void> | undefined
  const end = async () => {
    await running.end('SIGKILL')
    await folder.remove()
  }
  const stop = () => (stopped ??= end())
  return {
    version,
    host,
    port: client,
    url,
    get pid() {
      if (!running.alive) throw new Error(`etcd on port ${client} is down and has no pid`)
      return running.pid
    },
    get running() {
      return running.alive
    },
    log: () => readFileSync(log, 'utf8'),
    ask: (path, body, signal) => ask(url, path, body, signal),
    ctl: (...words) => run(join(root, 'usr/bin/etcdctl'), ['--endpoints', url, ...words]),
    kill9: () => running.end('SIGKILL'),
    restart: async () => {
      await running.end('SIGKILL')
      running = await launchAgain()
    },
    pause: () => running.pause(),
    resume: () => running.resume(),
    stop,
    [Symbol.asyncDispose]: stop,
  }
}

async function ask(
  url: string,
  path: string,
  body: object,
  signal?: AbortSignal,
): Promise<Record<string, unknown>> {
  const response = await fetch(`${url}${path}`, {
    method: 'POST',
    body: JSON.stringify(body),
    headers: { connection: 'close' },
    ...(signal && { signal }),
  })
  const text = await response.text()
  if (!response.ok) throw new Error(`${path}: ${response.status} ${text}`)
  return JSON.parse(text) as Record<string, unknown>
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
