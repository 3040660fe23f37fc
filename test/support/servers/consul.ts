// Consul: one agent in development mode, or a cluster of servers whose leader can be found and hurt.
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { until } from '../until.js'
import { unpacked } from './fetch.js'
import { makeFolder, type WorkFolder } from './places.js'
import { freePort } from './ports.js'
import { AddressInUse, launch, type Running } from './process.js'

export interface ConsulOptions {
  /** The least ttl of a session. Default `1s`; Consul's own is `10s`. */
  readonly ttlMin?: string
  /** More configuration, in HCL. */
  readonly config?: string
}

export interface ConsulServer extends AsyncDisposable {
  readonly host: string
  /** Of the HTTP API; the same over restarts. */
  readonly port: number
  readonly url: string
  /** Of the present process; throws while the server is down. */
  readonly pid: number
  readonly running: boolean
  log(): string
  /** One request to the HTTP API; resolves with the JSON it answers, undefined for 404. Rejects on other errors. */
  ask(method: string, path: string, body?: string): Promise<unknown>
  kill9(): Promise<void>
  /** Same ports; in development mode it starts empty. */
  restart(): Promise<void>
  pause(): void
  resume(): void
  stop(): Promise<void>
}

export interface ConsulCluster extends AsyncDisposable {
  readonly servers: readonly ConsulServer[]
  readonly urls: readonly string[]
  /** The one that the others follow; waits for it. */
  leader(): Promise<ConsulServer>
  stop(): Promise<void>
}

const host = '127.0.0.1'

/** Where the program is, for those who run `consul lock` themselves. */
export async function consulProgram(): Promise<string> {
  return join((await unpacked('consul')).root, 'usr/bin/consul')
}

/** One agent in development mode: everything in memory. */
export async function startConsul(options: ConsulOptions = {}): Promise<ConsulServer> {
  return again(async () => {
    const ports = await portsOf()
    return startAgent('dev', ports, ['-dev'], options)
  })
}

/** Three servers; resolves when they have a leader and take writes. */
export async function startConsulCluster(n = 3, options: ConsulOptions = {}): Promise<ConsulCluster> {
  return again(async () => {
    const all = await Promise.all(Array.from({ length: n }, portsOf))
    const others = all.map(({ lan }) => `-retry-join=${host}:${lan}`)
    const started = await Promise.allSettled(
      all.map((ports, i) =>
        startAgent(
          `n${i + 1}`,
          ports,
          ['-server', `-bootstrap-expect=${n}`, '-data-dir=data', '-retry-interval=1s', ...others],
          { ...options, config: `performance{raft_multiplier=1}\n${options.config ?? ''}` },
        ),
      ),
    )
    const servers = started.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []))
    const stop = async () => void (await Promise.all(servers.map((server) => server.stop())))
    const failed = started.find((one) => one.status === 'rejected')
    if (failed !== undefined) {
      await stop()
      throw failed.reason
    }
    const leader = () => leaderOf(servers, all)
    await leader()
    return { servers, urls: servers.map(({ url }) => url), leader, stop, [Symbol.asyncDispose]: stop }
  })
}

interface Ports {
  readonly http: number
  readonly rpc: number
  readonly lan: number
}

async function portsOf(): Promise<Ports> {
  return { http: await freePort(), rpc: await freePort(), lan: await freePort() }
}

async function again<T>(start: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await start()
    } catch (error) {
      if (tries === 5 || !(error instanceof AddressInUse)) throw error
    }
  }
}

async function leaderOf(servers: readonly ConsulServer[], ports: readonly Ports[]): Promise<ConsulServer> {
  const found = async () => {
    for (const server of servers.filter(({ running }) => running)) {
      const address = await server.ask('GET', '/v1/status/leader').catch(() => '')
      const at = ports.findIndex(({ rpc }) => address === `${host}:${rpc}`)
      if (at < 0 || servers[at]?.running !== true) continue
      // It may have died just now; a write shows that there is one.
      const wrote = await server.ask('PUT', '/v1/kv/-/leader', 'x').catch(() => false)
      if (wrote === true) return servers[at]
    }
    return false
  }
  return (await until(found, {
    within: 30_000,
    every: 50,
    what: 'a leader of the Consul cluster',
  })) as ConsulServer
}

async function startAgent(
  name: string,
  { http, rpc, lan }: Ports,
  args: readonly string[],
  { ttlMin = '1s', config = '' }: ConsulOptions,
): Promise<ConsulServer> {
  const command = await consulProgram()
  const folder = makeFolder('consul')
  const log = join(folder.path, 'log')
  writeFileSync(log, '')
  writeFileSync(
    join(folder.path, 'more.hcl'),
    `disable_update_check=true\nsession_ttl_min="${ttlMin}"\nlimits{http_max_conns_per_client=1000}\n${config}\n`,
  )
  const url = `http://${host}:${http}`
  const program = {
    name: `consul ${name} on port ${http}`,
    command,
    args: [
      ...['agent', `-node=${name}`, `-bind=${host}`, `-client=${host}`, `-http-port=${http}`],
      ...[
        '-dns-port=-1',
        '-grpc-port=-1',
        `-server-port=${rpc}`,
        `-serf-lan-port=${lan}`,
        '-serf-wan-port=-1',
      ],
      ...['-config-file=more.hcl', ...args],
    ],
    env: {},
    folder: folder.path,
    log,
    ready: async (logged: string) => {
      if (!/New leader elected|cluster leadership acquired|Synced node info/i.test(logged)) return false
      const address = await ask(url, 'GET', '/v1/status/leader').catch(() => '')
      return typeof address === 'string' && address !== ''
    },
    readyWithin: 30_000,
  }
  try {
    return controls(await launch(program), () => launch(program), { url, http, folder, log })
  } catch (error) {
    await folder.remove()
    throw error
  }
}

interface Setup {
  readonly url: string
  readonly http: number
  readonly folder: WorkFolder
  readonly log: string
}

function controls(first: Running, launchAgain: () => Promise<Running>, setup: Setup): ConsulServer {
  const { url, http, folder, log } = setup
  let running = first
  let stopped: Promise<void> | undefined
  const end = async () => {
    await running.end('SIGKILL')
    await folder.remove()
  }
  const stop = () => (stopped ??= end())
  return {
    host,
    port: http,
    url,
    get pid() {
      if (!running.alive) throw new Error(`consul on port ${http} is down and has no pid`)
      return running.pid
    },
    get running() {
      return running.alive
    },
    log: () => readFileSync(log, 'utf8'),
    ask: (method, path, body) => ask(url, method, path, body),
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

async function ask(url: string, method: string, path: string, body?: string): Promise<unknown> {
  const response = await fetch(`${url}${path}`, {
    method,
    headers: { connection: 'close' },
    signal: AbortSignal.timeout(5_000),
    ...(body !== undefined && { body }),
  })
  const text = await response.text()
  if (response.status === 404) return undefined
  if (!response.ok) throw new Error(`${path}: ${response.status} ${text}`)
  return text === '' ? undefined : JSON.parse(text)
}
