/**
 * Redis: version, eviction, persistence, replicas, Sentinels, rights, encryption, clocks. Uses INFO, TIME, CLUSTER, SENTINEL and, where
 * allowed, CONFIG GET; a script that calls nothing checks the account's rights. Changes nothing.
 */
import { eachNode, sentinelTls } from '../ioredis-options.js'
import { type RedisPlace, redisPlace } from '../redis-place.js'
import { keysOf } from '../tls.js'
import { hostPort } from '../url.js'
import { bad, type Check, merged, ok, unchecked, weak } from './check.js'
import { clockCheck } from './clock.js'
import { encryptionCheck } from './encryption.js'
import { askNode, type NodeFacts } from './redis-ask.js'
import { checksOf } from './redis-node.js'
import { type Asker, clusterAt, type Ioredis, redisAt } from './redis-open.js'
import { sentinelChecks } from './redis-sentinel.js'

export async function redisSetup(url: string, shown: string): Promise<Check[]> {
  const [, scheme = '', rest = ''] = /^([^:]+):(.*)$/s.exec(url) ?? []
  const place = redisPlace(scheme.toLowerCase(), rest, shown)
  const ioredis = await import('ioredis').catch(() => undefined)
  if (ioredis === undefined)
    return [unchecked('set-up', 'ioredis, which asks, is not installed', 'npm install ioredis')]
  const { hosts, tls, login } = place
  const way = { hosts: hosts.map(hostPort), secure: tls !== undefined, secret: login.password !== undefined }
  const found = await serversOf(ioredis, place)
  return [...found, encryptionCheck(way)]
}

function serversOf(ioredis: Ioredis, place: RedisPlace): Promise<Check[]> {
  switch (place.is) {
    case 'cluster':
      return ofCluster(ioredis, place)
    case 'sentinel':
      return ofSentinels(ioredis, place)
    default:
      return ofServers(ioredis, place)
  }
}

async function ofServers(ioredis: Ioredis, place: RedisPlace): Promise<Check[]> {
  const { hosts, is } = place
  const askers = new Map(
    hosts.map((host) => [hostPort(host), redisAt(ioredis, { ...host, ...eachNode(place, 1) })]),
  )
  return using([...askers.values()], async () => {
    const { facts, silent } = await heard(askers, place)
    const [failure] = silent.values()
    if (facts.size === 0 && failure !== undefined) throw failure
    const checks = together(facts, place)
    return is === 'redlock' ? [majority(hosts.length, [...silent.keys()]), ...checks] : checks
  })
}

interface Heard {
  readonly facts: ReadonlyMap<string, NodeFacts>
  /** Why they do not answer. */
  readonly silent: ReadonlyMap<string, unknown>
}

async function heard(askers: ReadonlyMap<string, Asker>, place: RedisPlace): Promise<Heard> {
  const facts = new Map<string, NodeFacts>()
  const silent = new Map<string, unknown>()
  const all = [...askers].map(([name, asker]) =>
    askNode(asker, place).then(
      (one) => facts.set(name, one),
      (error: unknown) => silent.set(name, error),
    ),
  )
  await Promise.all(all)
  return { facts, silent }
}

/** The checks of each server, and one for all clocks. */
function together(facts: ReadonlyMap<string, NodeFacts>, place: RedisPlace): Check[] {
  const all = [...facts.values()]
  const worst = [...all].sort((a, b) => Math.abs(b.ahead) - Math.abs(a.ahead))[0]
  return [
    ...merged(new Map([...facts].map(([server, one]) => [server, checksOf(one, place)]))),
    ...(worst === undefined ? [] : [clockCheck(worst.ahead, 0)]),
    ...(place.is === 'redlock' ? [clocksApart(all.map(({ ahead }) => ahead))] : []),
  ]
}

/** A server whose clock is further ahead than this, in ms, often gets no vote in the first round. */
const apart = 1_000

function clocksApart(ahead: readonly number[]): Check {
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

async function ofSentinels(ioredis: Ioredis, place: RedisPlace): Promise<Check[]> {
  const { hosts, tls, master } = place
  const asker = redisAt(ioredis, {
    ...{ sentinels: [...hosts], name: master },
    ...{ ...eachNode(place, 1), ...sentinelTls(place) },
  })
  const watchers = new Map(
    hosts.map((host) => [
      hostPort(host),
      redisAt(ioredis, { ...host, maxRetriesPerRequest: 0, ...(tls && { tls: keysOf(tls) }) }),
    ]),
  )
  return using([asker, ...watchers.values()], async () => {
    const facts = await askNode(asker, place)
    const checks = together(new Map([['the master', facts]]), place)
    return [...checks, ...(await sentinelChecks(watchers, master))]
  })
}

async function ofCluster(ioredis: Ioredis, place: RedisPlace): Promise<Check[]> {
  const cluster = clusterAt(ioredis, place)
  return using([cluster], async () => {
    const info = String(await cluster.call('CLUSTER', 'INFO'))
    const { facts, silent } = await heard(cluster.masters(), place)
    return [slots(info, facts.size, [...silent.keys()]), ...together(facts, place)]
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
async function using(askers: readonly Asker[], use: () => Promise<Check[]>): Promise<Check[]> {
  try {
    return await use()
  } finally {
    for (const asker of askers) asker.close()
  }
}
