// Runs alone because it measures how long waiting is interrupted when a leader dies or freezes: the bounds of the docs pages.
// Meanwhile nobody holds beside another, and tokens grow; the exact checkers judge.
// Second tier because leaders of three kinds of clusters die and freeze.
import assert from 'node:assert/strict'
import { fork } from 'node:child_process'
import { once as event } from 'node:events'
import { after, type TestContext, test } from 'node:test'
import { createLocks, type DriverFactory } from 'holdfast'
import { check, memoryRecorder, printViolation, recordLocks } from 'holdfast/verify'
import { consul } from '../../src/drivers/consul/index.js'
import { etcd } from '../../src/drivers/etcd/index.js'
import { zookeeper } from '../../src/drivers/zookeeper/index.js'
import { driverOf, placesOf, protocols } from '../drivers/etcd/support/scene.js'
import { claim, waiting } from '../drivers/support/asking.js'
import { leakCheck } from '../support/leaks.js'
import { startConsulCluster } from '../support/servers/consul.js'
import { startEtcdCluster } from '../support/servers/etcd.js'
import { startEnsemble } from '../support/servers/zookeeper.js'
import { until } from '../support/until.js'

interface Server {
  kill9(): Promise<void>
  restart(): Promise<void>
  pause(): void
  resume(): void
}

interface Quorum {
  /** Waits for it. */
  leader(): Promise<Server>
  /** The driver of client `i`, which asks another server first than the one before. */
  driver(i: number): DriverFactory
  readonly ttl: number
  /** In ms. */
  readonly bound: Readonly<Record<'killed' | 'frozen', number>>
  /** All servers take part again. */
  whole(): Promise<unknown>
}

async function survives(t: TestContext, { leader, driver, ttl, bound, whole }: Quorum): Promise<void> {
  const recorder = memoryRecorder()
  const clients = Array.from({ length: 4 }, (_, i) => createLocks(driver(i)))
  let served = 0
  let go = true
  const section = async () => {
    served++
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
  const work = clients.map(async (locks) => {
    const lock = recordLocks(locks, recorder).mutex('crowd')
    // A lease that was lost, and a wait that ended in trouble, are what may happen here.
    while (go) await lock.run(section, { wait: 10_000, ttl, fair: true }).catch(() => undefined)
  })
  for (const how of ['killed', 'frozen'] as const) {
    const before = served
    await until(() => served > before + 50, { within: 60_000 })
    const present = await leader()
    if (how === 'killed') await present.kill9()
    else present.pause()
    const [begin, then] = [performance.now(), served]
    await until(() => served > then + 10, { within: 60_000, every: 5 })
    const took = Math.round(performance.now() - begin)
    t.diagnostic(`leader ${how}: ten more holders after ${took} ms of ${bound[how]}`)
    // Servers that are starved vote late, and begin their election again: then it takes longer than the store's own times add up to.
    const longest = 2 * bound[how]
    assert.ok(took < longest, `${how}: waiting resumed after ${took} ms, ${bound[how]} are documented`)
    if (how === 'killed') await present.restart()
    else present.resume()
    await whole()
  }
  go = false
  await Promise.all(work)
  // Not in order: a client that comes back after its session has ended queues again.
  const violations = check(recorder.history(), {
    falseBusy: false,
    fifo: false,
    liveness: { within: 30_000 },
  })
  assert.equal(violations.slice(0, 3).map(printViolation).join('\n\n'), '')
  for (const locks of clients) await locks.close()
}

const rotated = (urls: readonly string[], i: number) =>
  urls.map((_, n) => urls[(n + i) % urls.length] as string)

/** A lease that is given its whole ttl again by the new leader, an election, and a request. */
const etcdBound = (ttl: number) => 2 * Math.ceil((ttl * 1.1) / 1000) * 1000 + 5_000

test('ZooKeeper: waiting continues when the leader is killed, and when it freezes', async (t) => {
  await using ensemble = await startEnsemble()
  const sessionTimeout = 4_000
  /** Two fifths of the time-out to notice, an eighth for each other server, and the election. */
  const resumes = sessionTimeout * (2 / 5 + 2 / 8) + 3_000
  await survives(t, {
    leader: () => ensemble.leader(),
    driver: () => zookeeper({ servers: ensemble.addresses, sessionTimeout, tickTime: 500 }),
    ttl: 30_000,
    // A frozen leader is replaced by the others after `syncLimit` ticks of silence: 10 of 500 ms.
    bound: { killed: resumes, frozen: resumes + 5_000 },
    whole: () => until(async () => (await ensemble.followers()).length === 2, { within: 60_000, every: 50 }),
  })
})

for (const [protocol, over] of protocols) {
  test(`etcd, ${protocol}: waiting continues when the leader is killed, and when it freezes`, async (t) => {
    await using cluster = await startEtcdCluster(3)
    const ttl = 1_000
    const bound = etcdBound(ttl)
    await survives(t, {
      leader: () => cluster.leader(),
      driver: (i) => etcd({ endpoints: rotated(cluster.urls, i), requestTimeout: 500, ...over }),
      ttl,
      bound: { killed: bound, frozen: bound },
      whole: () => cluster.leader(),
    })
  })
}

test('etcd: a lease of a dead process under a dead leader expires within the bound: the new leader restarts its ttl', async (t) => {
  await using cluster = await startEtcdCluster(3)
  const ttl = 2_000
  const child = fork(new URL('../drivers/etcd/support/holder.js', import.meta.url), [
    JSON.stringify([cluster.urls, 'dead', ttl]),
  ])
  t.after(() => child.kill('SIGKILL'))
  await event(child, 'message')
  const waits = driverOf(t, cluster.urls, { requestTimeout: 500 }).acquire(claim('dead'), waiting())
  const [one] = cluster.servers
  assert.ok(one)
  await until(async () => (await placesOf(one, 'dead')).length === 2)
  const gone = event(child, 'exit')
  child.kill('SIGKILL')
  await gone
  const leader = await cluster.leader()
  await leader.kill9()
  const begin = performance.now()
  const grant = await waits
  const took = performance.now() - begin
  // Twice, as above.
  assert.ok(took < 2 * etcdBound(ttl), `took ${took} ms, ${etcdBound(ttl)} are documented`)
  await grant?.release()
  await leader.restart()
  await cluster.leader()
})

test('Consul: waiting continues when the leader is killed, and when it freezes', async (t) => {
  await using cluster = await startConsulCluster(3)
  const ttl = 1_000
  /** Twice the ttl, counted again by a new leader, and an election. */
  const bound = 4 * Math.ceil(ttl * 1.1) + 12_000
  await survives(t, {
    leader: () => cluster.leader(),
    driver: (i) => consul({ url: rotated(cluster.urls, i), minTtl: 1_000, requestTimeout: 500 }),
    ttl,
    bound: { killed: bound, frozen: bound },
    whole: () => cluster.leader(),
  })
})

after(leakCheck)
