// Consul: one agent in development mode, or a cluster of servers whose leader can be found and hurt.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { until } from '../until.js'
import { unpacked } from './fetch.js'
import type { MemberCables } from './member-cables.js'
import { ask, type HttpServer, host, startHttpServer } from './over-http.js'
import { makeFolder } from './places.js'
import { freePort } from './ports.js'
import { onOtherPorts, startAll } from './process.js'

export interface ConsulOptions {
  /** The least ttl of a session. Default `1s`; Consul's own is `10s`. */
  readonly ttlMin?: string
  /** More configuration, in HCL. */
  readonly config?: string
  /** What servers ask of each other, Raft included, goes through these. Gossip does not: it is UDP. */
  readonly cables?: MemberCables
}

/** In development mode it starts empty after a restart. */
export interface ConsulServer extends HttpServer {
  /** One request to the HTTP API; resolves with the JSON it answers, undefined for 404. Rejects on other errors. */
  ask(method: string, path: string, body?: string, signal?: AbortSignal): Promise<unknown>
}

export interface ConsulCluster extends AsyncDisposable {
  readonly servers: readonly ConsulServer[]
  readonly urls: readonly string[]
  /** The one that the others follow; waits for it. */
  leader(): Promise<ConsulServer>
  stop(): Promise<void>
}

/** Where the program is, for those who run `consul lock` themselves. */
export async function consulProgram(): Promise<string> {
  return join((await unpacked('consul')).root, 'usr/bin/consul')
}

/** One agent in development mode: everything in memory. Resolves when it takes sessions. */
export async function startConsul(options: ConsulOptions = {}): Promise<ConsulServer> {
  return onOtherPorts(async () => {
    const ports = await freePorts()
    return startAgent('dev', ports, ['-dev'], options)
  })
}

/** Three servers; resolves when they have a leader, which knows them all, and take writes. */
export async function startConsulCluster(n = 3, options: ConsulOptions = {}): Promise<ConsulCluster> {
  return onOtherPorts(async () => {
    const { cables } = options
    const all = await Promise.all(Array.from({ length: n }, (_, i) => freePorts(cables?.address(i))))
    for (const [i, { rpc }] of all.entries()) await cables?.lay(i, rpc)
    const others = all.map(({ address, lan }) => `-retry-join=${address}:${lan}`)
    const { servers, stop } = await startAll(
      all.map((ports, i) =>
        startAgent(
          `n${i + 1}`,
          ports,
          ['-server', `-bootstrap-expect=${n}`, '-data-dir=data', '-retry-interval=1s', ...others],
          { ...options, config: `performance{raft_multiplier=1}\n${options.config ?? ''}` },
        ),
      ),
    )
    const leader = () => findLeader(servers, all)
    await leader()
    return { servers, urls: servers.map(({ url }) => url), leader, stop, [Symbol.asyncDispose]: stop }
  })
}

interface Ports {
  readonly http: number
  readonly rpc: number
  readonly lan: number
  /** Where the others find it. */
  readonly address: string
}

async function freePorts(address = host): Promise<Ports> {
  return { http: await freePort(), rpc: await freePort(), lan: await freePort(), address }
}

async function findLeader(servers: readonly ConsulServer[], ports: readonly Ports[]): Promise<ConsulServer> {
  const found = async () => {
    for (const server of servers.filter(({ running }) => running)) {
      const address = await server.ask('GET', '/v1/status/leader').catch(() => '')
      const at = ports.findIndex((one) => address === `${one.address}:${one.rpc}`)
      if (at < 0 || servers[at]?.running !== true) continue
      // It may have died just now; a write shows that there is one.
      const wrote = await server.ask('PUT', '/v1/kv/-/leader', 'x').catch(() => false)
      if (wrote === true) return servers[at]
    }
    return false
  }
  return (await until(found, {
    within: 60_000,
    every: 50,
    what: 'a leader of the Consul cluster',
  })) as ConsulServer
}

async function startAgent(
  name: string,
  { http, rpc, lan, address }: Ports,
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
  const token = /\bmaster\s*=\s*"([^"]+)"/.exec(config)?.[1] ?? ''
  const program = {
    name: `consul ${name} on port ${http}`,
    command,
    args: [
      ...['agent', `-node=${name}`, `-bind=${host}`, `-client=${host}`, `-http-port=${http}`],
      ...[`-advertise=${address}`, `-serf-lan-bind=${address}`],
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
      return isInCatalog(url, name, token)
    },
    readyWithin: 120_000,
  }
  const server = await startHttpServer(program, url, folder)
  return Object.assign(server, {
    ask: (method: string, path: string, body?: string, signal?: AbortSignal) =>
      asked(url, method, path, body, signal),
  })
}

interface NodeCheck {
  readonly CheckID: string
  readonly Status: string
}

/**
 * The leader enters each server in the catalog, with a check of its health, some time after its election, and makes the tokens of its
 * configuration. Until then a session on the node is refused.
 */
async function isInCatalog(url: string, node: string, token: string): Promise<boolean> {
  const answer = await fetch(`${url}/v1/health/node/${node}`, {
    headers: token === '' ? {} : { 'X-Consul-Token': token },
    signal: AbortSignal.timeout(10_000),
  }).catch(() => undefined)
  const checks = answer?.ok === true ? ((await answer.json()) as readonly NodeCheck[]) : []
  if (answer?.ok === false) await answer.text()
  return checks.some(({ CheckID, Status }) => CheckID === 'serfHealth' && Status === 'passing')
}

const asked = (url: string, method: string, path: string, body?: string, signal?: AbortSignal) =>
  ask(`${url}${path}`, { method, body, missing: true, ...(signal && { signal }) })
