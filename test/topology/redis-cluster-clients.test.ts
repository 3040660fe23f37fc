// What the clients of a Cluster do by themselves: they resend a claim that was answered long ago, keep sending to a node that is gone, and
// open a connection again to a node that they have dropped.
// Second tier because Cluster is a topology of its own, and a change seldom concerns it alone.
import assert from 'node:assert/strict'
import { after, type TestContext, test } from 'node:test'
import { Cluster } from 'ioredis'
import { createLocks, type Locks } from '../../src/create-locks.js'
import { type RedisOptions, redis } from '../../src/drivers/redis/index.js'
import type { Place } from '../drivers/redis/support/place.js'
import { type ClientOptions, type Version, versions } from '../drivers/redis/support/versions.js'
import { leakCheck } from '../support/leaks.js'
import type { RedisServer } from '../support/servers/redis.js'
import { startCluster } from '../support/servers/redis-cluster.js'
import { until } from '../support/until.js'

// No node is counted as down: nothing is promoted but by hand.
const cluster = await startCluster({ masters: 2, replicas: 1, nodeTimeout: 60_000 })
after(() => cluster.stop())
const ports = cluster.nodes.map(({ port }) => port)
const place: Place = { is: 'cluster', ports }
const settings = { quarantine: 'off', eviction: 'ignore', commandTimeout: 5_000, maxTtl: 600_000 } as const

const slotOf = (name: string) => cluster.keySlot(`hf:{${name}}`)
const ownerOf = async (name: string) => cluster.findOwner(await slotOf(name))

const isMaster = async (node: RedisServer) =>
  String((await node.cli('ROLE'))?.toString()).startsWith('master')

/** A name whose slot this node serves. */
async function nameAt(node: RedisServer, beginning: string): Promise<string> {
  for (let i = 0; ; i++) if ((await ownerOf(`${beginning} ${i}`)) === node) return `${beginning} ${i}`
}

/** The master with the first slots, and the other one. */
async function masters(): Promise<readonly [RedisServer, RedisServer]> {
  const first = await cluster.findOwner(0)
  return [first, await cluster.findOwner(16_383)]
}

/** The ioredis client, with the answer to each command of a script that it has sent. */
function noted(t: TestContext) {
  const hosts = ports.map((port) => ({ host: '127.0.0.1', port }))
  const client = new Cluster(hosts, {
    slotsRefreshInterval: 0,
    redisOptions: { disconnectTimeout: 100 } as object,
  })
  client.on('error', () => undefined)
  const answers: Promise<unknown>[] = []
  const evalsha = client.evalsha.bind(client) as (...given: readonly unknown[]) => Promise<unknown>
  const note = (...given: readonly unknown[]) => {
    const answer = evalsha(...given)
    answers.push(answer.catch(() => undefined))
    return answer
  }
  Object.assign(client, { evalsha: note })
  const locks = createLocks(redis({ client, ...settings }))
  t.after(async () => {
    await locks.close()
    client.disconnect()
  })
  const learn = () => new Promise((resolve) => client.refreshSlotsCache(resolve))
  return { locks, answers, learn }
}

interface Stray {
  readonly name: string
  /** Its client still asks the node that had the slot before, which is paused; the driver asks the other one after a moment. */
  readonly locks: Locks
  /** Of the commands that `ask` makes the client send, the first is kept by that node. From then on it asks the right one. */
  astray<R>(ask: () => Promise<R>): Promise<R>
  /** Somebody else. */
  readonly others: Locks
  /** The node continues, and the client sends that command again, to the right node. */
  arrive(): Promise<void>
}

async function stray(t: TestContext, beginning: string): Promise<Stray> {
  const [before, now] = await masters()
  const name = await nameAt(before, beginning)
  const { locks, answers, learn } = noted(t)
  await locks.mutex(name).run(() => undefined)
  await cluster.migrateSlot(await slotOf(name), now)
  const { locks: others } = noted(t)
  // The other node knows the scripts for that, but not the one that inspects.
  await others.mutex(name).run(() => undefined)
  before.pause()
  t.after(() => before.resume())
  const asks = () =>
    locks.inspect(name).then(
      () => true,
      () => false,
    )
  // By then the driver knows which node answers.
  await until(asks, { within: 60_000 })
  let copy: Promise<unknown> | undefined
  return {
    name,
    locks,
    others,
    async astray(ask) {
      const sent = answers.length
      const asked = ask()
      await until(() => answers.length > sent)
      copy = answers[sent]
      const answer = await asked
      await learn()
      return answer
    },
    async arrive() {
      before.resume()
      await copy
    },
  }
}

/** More than the lock remembers of attempts that have ended. */
async function usedMuch({ others, name }: Stray): Promise<void> {
  for (let i = 0; i < 5; i++) await others.mutex(name).run(() => undefined)
}

test('a copy of a claim that arrives after its release takes no lock (ioredis)', async (t) => {
  const scene = await stray(t, 'released')
  const { name, locks, others, astray, arrive } = scene
  const lease = await astray(() => locks.mutex(name).acquire({ ttl: 30_000, wait: 60_000 }))
  assert.equal(await lease.release(), 'released')
  await usedMuch(scene)
  await arrive()
  assert.deepEqual((await others.inspect(name)).holders, [])
})

test('a copy of a single attempt that arrives after "not free" takes no lock (ioredis)', async (t) => {
  const { name, locks, others, astray, arrive } = await stray(t, 'refused')
  const lease = await others.mutex(name).acquire({ ttl: 60_000 })
  assert.equal(await astray(() => locks.mutex(name).tryAcquire({ ttl: 30_000 })), undefined)
  assert.equal(await lease.release(), 'released')
  await arrive()
  assert.deepEqual((await others.inspect(name)).holders, [])
})

test('a copy of a claim that arrives after its wait was given up takes no place in the queue (ioredis)', async (t) => {
  const scene = await stray(t, 'given up')
  const { name, locks, others, astray, arrive } = scene
  const lease = await others.mutex(name).acquire({ ttl: 60_000 })
  const [gone, reason] = [new AbortController(), new Error('given up')]
  const waits = await astray(async () => {
    const asked = locks.mutex(name).acquire({ wait: 60_000, signal: gone.signal })
    asked.catch(() => undefined)
    await until(async () => (await others.inspect(name)).waiters.length === 1)
    return { asked }
  })
  gone.abort(reason)
  await assert.rejects(waits.asked, (error) => error === reason)
  assert.equal(await lease.release(), 'released')
  await usedMuch(scene)
  const next = await others.mutex(name).acquire({ ttl: 60_000 })
  await arrive()
  assert.deepEqual((await others.inspect(name)).waiters, [])
  await next.release()
})

async function locksOn(
  t: TestContext,
  version: Version,
  more: Partial<RedisOptions> = {},
  options?: ClientOptions,
): Promise<Locks> {
  const { client, start, close } = await version.open(place, options)
  await start()
  const locks = createLocks(redis({ client, ...settings, ...more }))
  t.after(() => locks.close().then(close))
  return locks
}

/** Clients connected to it, but for the one that asks and for nodes that have moved keys to it. */
async function clientsOf(node: RedisServer): Promise<number> {
  const all = String(await node.cli('CLIENT', 'LIST', 'TYPE', 'normal'))
    .trim()
    .split('\n')
  return all.filter((one) => !/ cmd=(client|restore)/.test(one)).length
}

/** After a promotion the master that was takes a moment to follow. */
async function replicaOf(master: RedisServer): Promise<RedisServer> {
  const id = String(await master.cli('CLUSTER', 'MYID'))
  const named = new RegExp(`127\\.0\\.0\\.1:(\\d+)\\S* slave ${id}`)
  return until(async () => {
    const port = Number(named.exec(String(await master.cli('CLUSTER', 'NODES')))?.[1])
    return cluster.nodes.find((node) => node.port === port)
  })
}

/** Its replica takes its slots. Resolves when it knows. */
async function replaced(master: RedisServer): Promise<void> {
  const replica = await replicaOf(master)
  await cluster.failOver(replica)
  await until(async () => !(await isMaster(master)))
}

for (const version of versions.filter(({ library }) => library === 'redis')) {
  test(`a list opens no connection to a node that is dropped meanwhile (${version.name})`, async (t) => {
    const [first, dropped] = await masters()
    const locks = await locksOn(t, version, { commandTimeout: 30_000 })
    const name = await nameAt(dropped, `dropped ${version.name}`)
    await locks.mutex(name).run(() => undefined)
    first.pause()
    t.after(() => first.resume())
    const listed = locks.list(name)
    listed.catch(() => undefined)
    await replaced(dropped)
    // The client learns of it.
    const lease = await locks.mutex(name).acquire({ ttl: 60_000 })
    await until(async () => (await clientsOf(dropped)) === 0)
    first.resume()
    assert.deepEqual(
      (await listed).map((one) => one.name),
      [name],
    )
    assert.equal(await clientsOf(dropped), 0)
    await lease.release()
  })

  test(`with replicas no connection is opened to a node that the client has dropped (${version.name})`, async (t) => {
    const [, dropped] = await masters()
    const name = await nameAt(dropped, `replaced ${version.name}`)
    const locks = await locksOn(t, version, { replicas: 1 })
    const lease = await locks.mutex(name).acquire({ ttl: 60_000, wait: 60_000 })
    const before = await clientsOf(dropped)
    await replaced(dropped)
    // The client learns of it.
    await until(() => lease.release().then((how) => how !== 'unknown'))
    await until(async () => (await clientsOf(dropped)) < before)
    const left = await clientsOf(dropped)
    const next = await locks.mutex(name).acquire({ ttl: 60_000, wait: 60_000 })
    assert.equal(await clientsOf(dropped), left)
    await next.release()
  })

  test(`with replicas and disableOfflineQueue a node that is gone is given up (${version.name})`, async (t) => {
    const [gone, other] = await masters()
    const name = await nameAt(gone, `gone ${version.name}`)
    const locks = await locksOn(t, version, { replicas: 1 }, { disableOfflineQueue: true })
    const lease = await locks.mutex(name).acquire({ ttl: 60_000, wait: 60_000 })
    // The client does not know of it.
    await cluster.migrateSlot(await slotOf(name), other)
    await gone.kill9()
    try {
      await until(() =>
        lease.extend().then(
          () => true,
          () => false,
        ),
      )
      assert.ok(lease.isHeld)
    } finally {
      await gone.restart()
    }
  })
}

after(leakCheck)
