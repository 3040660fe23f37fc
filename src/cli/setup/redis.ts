/**
 * Redis: version, eviction, persistence, replicas, Sentinels, rights, encryption, clocks. Uses INFO, TIME, CLUSTER, SENTINEL and, where
 * allowed, CONFIG GET; a script that calls nothing checks the account's rights. Changes nothing.
 */
import { eachNode, sentinelTls } from '../ioredis-options.js'
import { parseRedisAddress, type RedisAddress } from '../redis-place.js'
import { readKeys } from '../tls.js'
import { hostPort } from '../url.js'
import { bad, type Check, merged, ok, unchecked, weak } from './check.js'
import { clockCheck } from './clock.js'
import { encryptionCheck } from './encryption.js'
import { askNode, type NodeFacts } from './redis-ask.js'
import { nodeChecks } from './redis-node.js'
import { clusterAt, type Ioredis, type RedisConnection, redisAt } from './redis-open.js'
import { sentinelChecks } from './redis-sentinel.js'

export async function redisSetup(url: string, shown: string): Promise<Check[]> {
  const [, scheme = '', rest = ''] = /^([^:]+):(.*)$/s.exec(url) ?? []
  const address = parseRedisAddress(scheme.toLowerCase(), rest, shown)
  const ioredis = await import('ioredis').catch(() => undefined)
  if (ioredis === undefined)
    return [unchecked('set-up', 'ioredis, which this check uses, is not installed', 'npm install ioredis')]
  const { hosts, tls, login } = address
  const way = { hosts: hosts.map(hostPort), secure: tls !== undefined, secret: login.password !== undefined }
  const found = await serverChecks(ioredis, address)
  return [...found, encryptionCheck(way)]
}

function serverChecks(ioredis: Ioredis, address: RedisAddress): Promise<Check[]> {
  switch (address.is) {
    case 'cluster':
      return checkCluster(ioredis, address)
    case 'sentinel':
      return checkSentinels(ioredis, address)
    default:
      return checkServers(ioredis, address)
  }
}

async function checkServers(ioredis: Ioredis, address: RedisAddress): Promise<Check[]> {
  const { hosts, is } = address
  const connections = new Map(
    hosts.map((host) => [hostPort(host), redisAt(ioredis, { ...host, ...eachNode(address, 1) })]),
  )
  return using([...connections.values()], async () => {
    const { facts, silent } = await askAll(connections, address)
    const [failure] = silent.values()
    if (facts.size === 0 && failure !== undefined) throw failure
    const checks = groupChecks(facts, address)
    return is === 'redlock' ? [majority(hosts.length, [...silent.keys()]), ...checks] : checks
  })
}

interface Replies {
  readonly facts: ReadonlyMap<string, NodeFacts>
  /** Why they do not answer. */
  readonly silent: ReadonlyMap<string, unknown>
}

async function askAll(
  connections: ReadonlyMap<string, RedisConnection>,
  address: RedisAddress,
): Promise<Replies> {
  const facts = new Map<string, NodeFacts>()
  const silent = new Map<string, unknown>()
  const all = [...connections].map(([name, connection]) =>
    askNode(connection, address).then(
      (one) => facts.set(name, one),
      (error: unknown) => silent.set(name, error),
    ),
  )
  await Promise.all(all)
  return { facts, silent }
}

/** The checks of each server, and one for all clocks. */
function groupChecks(facts: ReadonlyMap<string, NodeFacts>, address: RedisAddress): Check[] {
  const all = [...facts.values()]
  const worst = [...all].sort((a, b) => Math.abs(b.ahead) - Math.abs(a.ahead))[0]
  return [
    ...merged(new Map([...facts].map(([server, one]) => [server, nodeChecks(one, address)]))),
    ...(worst === undefined ? [] : [clockCheck(worst.ahead, 0)]),
    ...(address.is === 'redlock' ? [clockDifferenceCheck(all.map(({ ahead }) => ahead))] : []),
  ]
}

/** A server whose clock is further ahead than this, in ms, often gets no vote in the first round. */
const apart = 1_000

function clockDifferenceCheck(ahead: readonly number[]): Check {
  const most = Math.round(Math.max(...ahead) - Math.min(...ahead))
  const found = `at most ${most} ms between any two servers`
  if (most <= apart) return ok('clocks', found)
  return weak(
    'clocks',
    found,
    'safe; the server that is ahead often gives no vote in the first round, so locks take a second one',
    'run an NTP client on every server (chronyd, systemd-timesyncd)',
  )
}

function majority(all: number, silent: readonly string[]): Check {
  const [what, needed] = ['servers', Math.floor(all / 2) + 1]
  const there = all - silent.length
  if (silent.length > 0 && there < needed) {
    const found = `${there} of ${all} answer, ${needed} are needed; no answer from ${silent.join(', ')}`
    return bad(what, found, 'no lock can be taken', 'start the servers that do not answer')
  }
  if (silent.length > 0) {
    const spare = there - needed
    const found = `${there} of ${all} answer; no answer from ${silent.join(', ')}`
    const means = `locks work; ${spare === 0 ? 'no other' : `only ${spare} more`} may be down`
    return weak(what, found, means, 'start the servers that do not answer')
  }
  if (all % 2 === 1) return ok(what, `${all} servers vote, ${all - needed} of them may be down`)
  return weak(
    what,
    `${all} servers vote, ${all - needed} of them may be down`,
    `no better than ${all - 1}: the extra server only adds work`,
    'an odd number of servers',
  )
}

async function checkSentinels(ioredis: Ioredis, address: RedisAddress): Promise<Check[]> {
  const { hosts, tls, master } = address
  const connection = redisAt(ioredis, {
    ...{ sentinels: [...hosts], name: master },
    ...{ ...eachNode(address, 1), ...sentinelTls(address) },
  })
  const watchers = new Map(
    hosts.map((host) => [
      hostPort(host),
      redisAt(ioredis, { ...host, maxRetriesPerRequest: 0, ...(tls && { tls: readKeys(tls) }) }),
    ]),
  )
  return using([connection, ...watchers.values()], async () => {
    const facts = await askNode(connection, address)
    const checks = groupChecks(new Map([['the master', facts]]), address)
    return [...checks, ...(await sentinelChecks(watchers, master))]
  })
}

async function checkCluster(ioredis: Ioredis, address: RedisAddress): Promise<Check[]> {
  const cluster = clusterAt(ioredis, address)
  return using([cluster], async () => {
    const info = String(await cluster.call('CLUSTER', 'INFO'))
    const { facts, silent } = await askAll(cluster.masters(), address)
    return [slots(info, facts.size, [...silent.keys()]), ...groupChecks(facts, address)]
  })
}

function slots(info: string, masters: number, silent: readonly string[]): Check {
  const field = (name: string) => new RegExp(`^${name}:(\\S+)`, 'm').exec(info)?.[1] ?? 'unknown'
  const what = 'slots'
  if (silent.length > 0) {
    const found = `no answer from the master ${silent.join(', ')}`
    return bad(what, found, 'locks whose slots it has fail', 'start it, or promote a replica of it')
  }
  const [state, assigned] = [field('cluster_state'), field('cluster_slots_assigned')]
  const found = `cluster_state ${state}, ${assigned} of 16384 slots at ${masters} masters`
  if (state === 'ok' && assigned === '16384') return ok(what, found)
  return bad(what, found, 'locks in the other slots fail', 'redis-cli --cluster fix HOST:PORT')
}

/** Closes the clients in any case. */
async function using(connections: readonly RedisConnection[], use: () => Promise<Check[]>): Promise<Check[]> {
  try {
    return await use()
  } finally {
    for (const connection of connections) connection.close()
  }
}
