// The options of a client that change what it sends, where and when, with every version of the clients, over Sentinels and in a Cluster: many wait, are handed the
// lock without asking, and continue after a cut.
// Long because the settings and what they must not change are read together.
// Second tier because it repeats for other topologies and versions of the clients what test/drivers/redis/client-options.test.ts shows.
import assert from 'node:assert/strict'
import { after, type TestContext, test } from 'node:test'
import type { Clock } from '../../src/core/clock.js'
import { createLocks, type Locks } from '../../src/create-locks.js'
import { type RedisClient, redis } from '../../src/drivers/redis/index.js'
import { pause } from '../drivers/redis/support/peer.js'
import type { Place } from '../drivers/redis/support/place.js'
import { type ClientOptions, type Version, versions } from '../drivers/redis/support/versions.js'
import { leakCheck } from '../support/leaks.js'
import { startCluster } from '../support/servers/redis-cluster.js'
import type { RedisServer } from '../support/servers/redis-node.js'
import { startSentinel } from '../support/servers/redis-sentinel.js'
import { until } from '../support/until.js'

type Group = 'sentinel' | 'cluster'

const [sentinel, cluster] = await Promise.all([startSentinel(), startCluster({ replicas: 1 })])
after(() => Promise.all([sentinel.stop(), cluster.stop()]))
const places: Readonly<Record<Group, Place>> = {
  sentinel: {
    is: 'sentinel',
    name: sentinel.name,
    sentinels: sentinel.addresses,
    ports: sentinel.nodes.map(({ port }) => port),
  },
  cluster: { is: 'cluster', ports: cluster.nodes.map(({ port }) => port) },
}
const masters: Readonly<Record<Group, readonly RedisServer[]>> = {
  sentinel: [sentinel.master()],
  cluster: cluster.masters,
}

/** A client that has said that it goes wrong, or warned of too many listeners, would have ended a process that listens to less. */
const wrong: unknown[] = []
const note = (reason: unknown) => void wrong.push(reason)
const events = ['unhandledRejection', 'uncaughtException', 'warning'] as const
for (const event of events) process.on(event, note)
after(() => {
  for (const event of events) process.off(event, note)
  assert.deepEqual(wrong, [])
})

interface Setting {
  /** Of the clients of the nodes. */
  readonly each?: ClientOptions
  /** Of the Cluster or Sentinel client. */
  readonly group?: ClientOptions
  /** What every key on the servers begins with. */
  readonly prefix?: string
  readonly replicas?: number
}

const prefix = 'app:'
const busy = { stringNumbers: true, showFriendlyErrorStack: true, autoResubscribe: false }
const impatient = {
  enableOfflineQueue: false,
  maxRetriesPerRequest: 0,
  commandTimeout: 10_000,
  enableReadyCheck: false,
}
/** What node-redis gives instead of numbers, texts and lists, by the type bytes of RESP. */
const asText = { 58: String, 36: Buffer, 42: Array }

function settingsOf({ library, version }: Version, is: Group): Readonly<Record<string, Setting>> {
  if (library === 'ioredis') {
    const proto = version.startsWith('5') ? {} : { protocol: 3 }
    const shy = { each: { ...impatient, ...proto } }
    const all = { ...busy, maxRetriesPerRequest: null, keyPrefix: prefix, enableAutoPipelining: true }
    const group = {
      keyPrefix: prefix,
      enableAutoPipelining: true,
      scaleReads: 'slave',
      enableOfflineQueue: false,
    }
    return {
      'a prefix, pipelining, replicas': { each: all, prefix, replicas: 1 },
      ...(is === 'sentinel'
        ? { 'no queue, no retries': shy }
        : { 'no queue, no retries, slave reads': { ...shy, group, prefix, replicas: 1 } }),
    }
  }
  const each = { disableOfflineQueue: true, pingInterval: 50, commandOptions: { typeMapping: asText } }
  if (version.startsWith('4')) return { 'replica reads': { each, group: { useReplicas: true }, replicas: 1 } }
  // Over Sentinels each lock would have a client of its own for that, and before version 6 none.
  const replicas = is === 'cluster' ? 1 : 0
  const commandOptions = { typeMapping: asText, asap: true, timeout: 10_000 }
  const ofCluster = { useReplicas: true, minimizeConnections: true, keyPrefix: prefix }
  const ofSentinel = { reserveClient: true, replicaPoolSize: 1, passthroughClientErrorEvents: true }
  const all = { 'RESP 3, types, at once, replicas': { each: { ...each, RESP: 3, commandOptions }, replicas } }
  if (version === '5.0.0') return all
  return {
    ...all,
    'RESP 2, replica reads':
      is === 'cluster'
        ? { each: { RESP: 2 }, group: ofCluster, prefix }
        : { each: { RESP: 2 }, group: ofSentinel },
  }
}

/**
 * Who waits looks by itself seldom: once, for the waiter in a Cluster that loses its turn because the machine is too busy. Twenty who are
 * told nothing would need that for each turn, and be late.
 */
function seldomLooking(clock: Clock): Clock {
  return {
    ...clock,
    at: (time, fn, options) => clock.at(time + (time - clock.now() > 3_000 ? 15_000 : 0), fn, options),
  }
}

/** Many processes over few clients; they look by themselves seldom if `quiet`. */
interface Crowd {
  readonly many: readonly Locks[]
  close(): Promise<void>
}

async function crowd(
  t: TestContext,
  version: Version,
  is: Group,
  { each = {}, group = {}, replicas = 0 }: Setting,
  quiet: boolean,
  of: number,
): Promise<Crowd> {
  const clients = [await version.open(places[is], each, group), await version.open(places[is], each, group)]
  const locksOver = (client: RedisClient) => {
    // These servers are young: a lock that they do not know they could have forgotten.
    const driver = redis({ client, quarantine: 'off', replicas, maxTtl: 60_000, commandTimeout: 10_000 })
    return createLocks((env) => driver(quiet ? { ...env, clock: seldomLooking(env.clock) } : env))
  }
  for (const { start } of clients) await start()
  const many = Array.from({ length: of }, (_, i) => locksOver((clients[i % 2] ?? clients[0])!.client))
  let closed = false
  const close = async () => {
    if (closed) return
    closed = true
    await Promise.all(many.map((locks) => locks.close()))
    for (const one of clients) one.close()
  }
  t.after(close)
  return { many, close }
}

/** All the others wait; the first releases after `meanwhile`; nobody is in with another, and tokens grow. */
async function inTurn([first, ...others]: readonly Locks[], name: string, meanwhile: () => Promise<unknown>) {
  assert.ok(first)
  const lease = await first.mutex(name).acquire({ ttl: 60_000 })
  let [inside, last] = [0, lease.token]
  const waits = others.map((locks) =>
    locks.mutex(name).run(
      async ({ token }) => {
        assert.equal(++inside, 1, 'a second holder')
        assert.ok(token > last)
        last = token
        await new Promise(setImmediate)
        inside--
      },
      { ttl: 60_000, wait: 120_000 },
    ),
  )
  await until(async () => (await first.inspect(name)).waiters.length === others.length)
  await meanwhile()
  assert.equal(inside, 0)
  assert.ok(lease.isHeld)
  await until(async () => (await lease.release()) !== 'unknown')
  await Promise.all(waits)
}

async function scriptsRun(servers: readonly RedisServer[]): Promise<number> {
  const counts = servers.map(async (server) => {
    const stats = String(await server.cli('INFO', 'commandstats'))
    return Number(/^cmdstat_evalsha:calls=(\d+)/m.exec(stats)?.[1] ?? 0)
  })
  return (await Promise.all(counts)).reduce((sum, one) => sum + one, 0)
}

async function noPolls(servers: readonly RedisServer[]): Promise<void> {
  // A subscription that has just come up has its waiter ask once more.
  let before = -1
  await until(
    async () => {
      const now = await scriptsRun(servers)
      const same = now === before
      before = now
      return same
    },
    { every: 200 },
  )
}

async function cut(servers: readonly RedisServer[]): Promise<void> {
  for (const server of servers) {
    for (const type of ['normal', 'pubsub']) await server.cli('CLIENT', 'KILL', 'TYPE', type)
  }
}

for (const version of versions) {
  for (const is of ['sentinel', 'cluster'] as const) {
    if (!version.places.includes(is)) continue
    for (const [label, setting] of Object.entries(settingsOf(version, is))) {
      test(`${version.name}, ${is}, ${label}: twenty wait and are told, and a cut loses nothing`, async (t) => {
        const servers = masters[is]
        const before = new Set((await Promise.all(servers.map((one) => one.cli('KEYS', '*')))).flat())
        const told = await crowd(t, version, is, setting, true, 21)
        await inTurn(told.many, `${version.name} ${label}`, () => noPolls(servers))
        const [a, b] = told.many
        assert.ok(a && b)
        const held = await a.mutex(`${version.name} ${label} listed`).acquire()
        const listed = await b.list(`${version.name} ${label} listed`)
        assert.deepEqual(
          listed.map(({ holders }) => holders.length),
          [1],
        )
        assert.equal(await b.forceRelease(`${version.name} ${label} listed`), 1)
        await held.extend().catch(() => undefined)
        assert.equal(held.isHeld, false)
        await told.close()

        const { many, close } = await crowd(t, version, is, setting, false, 5)
        await inTurn(many, `${version.name} ${label} cut`, () => cut(servers).then(() => pause(50)))
        await close()
        const keys = (await Promise.all(servers.map((one) => one.cli('KEYS', '*')))).flat().map(String)
        const own = keys.filter((key) => !before.has(key))
        assert.ok(own.length > 0)
        assert.deepEqual(
          own.filter((key) => !key.startsWith(`${setting.prefix ?? ''}hf:`)),
          [],
        )
      })
    }
  }
}

test('node-redis with masterPoolSize above 1 leaves commands unanswered, by itself; a lock is granted all the same', async (t) => {
  for (const version of versions) {
    if (version.library !== 'redis' || !version.places.includes('sentinel')) continue
    const plain = await version.open(places.sentinel, {}, { masterPoolSize: 2 })
    await plain.start()
    t.after(plain.close)
    const { get } = plain.client as unknown as { get(key: string): Promise<unknown> }
    let answered = 0
    const count = () => {
      answered++
    }
    const all = Array.from({ length: 5 }, () => get.call(plain.client, 'x').then(count, () => undefined))
    await Promise.race([Promise.all(all), pause(1_000)])
    assert.ok(answered < 5, 'it answers: the docs need not warn of it')

    const used = await version.open(places.sentinel, {}, { masterPoolSize: 2 })
    await used.start()
    const locks = Array.from({ length: 5 }, () =>
      createLocks(redis({ client: used.client, quarantine: 'off', commandTimeout: 500 })),
    )
    const tokens = await Promise.all(
      locks.map((one) => one.mutex(`${version.name} pool`).run(({ token }) => token, { wait: 30_000 })),
    )
    assert.equal(new Set(tokens).size, 5)
    await Promise.all(locks.map((one) => one.close()))
    used.close()
  }
})

after(leakCheck)
