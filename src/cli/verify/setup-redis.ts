/** Redis: eviction, persistence, replicas, version, clock. Asks INFO, TIME and, where it may, CONFIG GET; changes nothing. */
import { type RedisPlace, redisPlace } from '../connect-redis.js'
import type { Check } from './setup.js'
import { clockCheck, midway } from './setup-clock.js'

interface Asker {
  call(command: string, ...args: string[]): Promise<unknown>
  disconnect(): void
}
type Info = ReadonlyMap<string, string>

export async function redisSetup(url: string, shown: string): Promise<Check[]> {
  const [, scheme = '', rest = ''] = /^([^:]+):(.*)$/s.exec(url) ?? []
  const place = redisPlace(scheme.toLowerCase(), rest, shown)
  const askers = await open(place)
  if (askers === undefined) {
    return [
      {
        what: 'set-up',
        verdict: 'not checked',
        found: 'ioredis is not installed',
        remedy: 'npm install ioredis',
      },
    ]
  }
  try {
    const checks: Check[] = []
    for (const [name, asker] of askers) {
      const found = await looked(asker, place)
      checks.push(
        ...found.map((check) => (askers.size > 1 ? { ...check, what: `${name}: ${check.what}` } : check)),
      )
    }
    return checks
  } finally {
    for (const asker of askers.values()) asker.disconnect()
  }
}

async function open(place: RedisPlace): Promise<ReadonlyMap<string, Asker> | undefined> {
  const loaded = await import('ioredis').catch(() => undefined)
  if (loaded === undefined) return undefined
  const { Cluster, Redis } = loaded
  const { is, hosts, login, tls, master } = place
  const few = { ...login, maxRetriesPerRequest: 2, ...(tls && { tls: {} }) }
  const silent = <T extends { on(event: 'error', listener: () => void): unknown }>(client: T): T => {
    client.on('error', () => undefined)
    return client
  }
  if (is === 'cluster')
    return new Map([['the cluster', silent(new Cluster([...hosts], { redisOptions: few }))]])
  if (is === 'sentinel') {
    return new Map([['the master', silent(new Redis({ sentinels: [...hosts], name: master, ...few }))]])
  }
  return new Map(hosts.map((host) => [`${host.host}:${host.port}`, silent(new Redis({ ...host, ...few }))]))
}

async function looked(asker: Asker, { is, options }: RedisPlace): Promise<Check[]> {
  const { answer, middle } = await midway(() => Promise.all([infoOf(asker), asker.call('TIME')]))
  const [info, time] = answer
  const get = async (name: string) => {
    const reply = await asker.call('CONFIG', 'GET', name).catch(() => undefined)
    return Array.isArray(reply) ? String(reply[1] ?? '') : undefined
  }
  const [minReplicas, appendfsync] = await Promise.all([get('min-replicas-to-write'), get('appendfsync')])
  return [
    version(info),
    eviction(info),
    persistence(info, appendfsync, is),
    ...(is === 'cluster'
      ? [cluster(options.replicas ?? 0)]
      : replicas(info, minReplicas, options.replicas ?? 0, is)),
    clockCheck(serverTime(time), middle),
  ]
}

async function infoOf(asker: Asker): Promise<Info> {
  const text = String(await asker.call('INFO'))
  return new Map(
    text.split('\r\n').map((line) => {
      const at = line.indexOf(':')
      return [line.slice(0, Math.max(0, at)), line.slice(at + 1)] as const
    }),
  )
}

function version(info: Info): Check {
  const found = info.get('valkey_version') ?? info.get('redis_version') ?? 'unknown'
  const old = Number.parseInt(found, 10) < 7
  const check = { what: 'version', found: `${info.has('valkey_version') ? 'Valkey' : 'Redis'} ${found}` }
  return old
    ? { ...check, verdict: 'bad', remedy: 'Redis 7 or newer is needed' }
    : { ...check, verdict: 'ok' }
}

function eviction(info: Info): Check {
  const policy = info.get('maxmemory_policy') ?? 'unknown'
  const limited = (info.get('maxmemory') ?? '0') !== '0'
  const what = 'eviction'
  if (!policy.startsWith('allkeys')) return { what, verdict: 'ok', found: `maxmemory-policy ${policy}` }
  const found = `maxmemory-policy ${policy} may drop a lock that is held${limited ? '' : ' (no maxmemory is set at present)'}`
  return { what, verdict: limited ? 'bad' : 'weak', found, remedy: 'set noeviction or a volatile policy' }
}

function persistence(info: Info, appendfsync: string | undefined, is: RedisPlace['is']): Check {
  const what = 'persistence'
  if (info.get('aof_enabled') === '1') {
    const found = `append-only file, appendfsync ${appendfsync ?? 'unknown'}`
    if (appendfsync === 'always') return { what, verdict: 'ok', found }
    return {
      what,
      verdict: 'weak',
      found: `${found}: a power cut forgets the newest grants; they are then let run out before anything is granted`,
    }
  }
  const lost =
    is === 'redlock'
      ? 'this server is left out for maxTtl'
      : 'nothing is granted until all locks have run out'
  return {
    what,
    verdict: 'weak',
    found: `no append-only file: after a restart ${lost}`,
    remedy: 'appendonly yes',
  }
}

function replicas(
  info: Info,
  minReplicas: string | undefined,
  waited: number,
  is: RedisPlace['is'],
): Check[] {
  const connected = Number(info.get('connected_slaves') ?? 0)
  const what = 'replicas'
  if (info.get('role') === 'slave') {
    return [
      {
        what,
        verdict: 'bad',
        found: 'this server is a replica',
        remedy: 'name the master, or use redis+sentinel:',
      },
    ]
  }
  if (is === 'redlock') {
    if (connected === 0) return [{ what, verdict: 'ok', found: 'none, as Redlock wants it' }]
    return [
      {
        what,
        verdict: 'weak',
        found: `${connected} connected: a promoted one has another memory of votes`,
        remedy: 'no replicas behind redlock:',
      },
    ]
  }
  if (connected === 0 && is !== 'sentinel')
    return [{ what, verdict: 'ok', found: 'none, so no fail-over can lose a grant' }]
  const guard: Check =
    Number(minReplicas ?? 0) > 0
      ? { what: 'old masters', verdict: 'ok', found: `min-replicas-to-write ${minReplicas}` }
      : {
          what: 'old masters',
          verdict: 'weak',
          found: 'a master that is cut off goes on granting',
          remedy: 'min-replicas-to-write 1',
        }
  if (waited > 0) return [{ what, verdict: 'ok', found: `a grant counts once ${waited} have it` }, guard]
  const found = `${connected} connected, grants do not wait for them: after a fail-over nothing is granted until what may be lost has run out`
  return [{ what, verdict: 'weak', found, remedy: '?replicas=1' }, guard]
}

function cluster(waited: number): Check {
  const what = 'replicas'
  if (waited > 0) return { what, verdict: 'ok', found: `a grant counts once ${waited} have it` }
  return {
    what,
    verdict: 'weak',
    found: 'a Cluster has no marker of lost grants',
    remedy: '?replicas=1 where its masters have replicas',
  }
}

function serverTime(time: unknown): number {
  const [seconds, micros] = time as [string, string]
  return Number(seconds) * 1000 + Number(micros) / 1000
}
