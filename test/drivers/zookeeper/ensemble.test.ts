// Three servers, of which one goes: the leader, or the one a client talks to.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { createLocks, type DriverFactory, type Locks } from 'holdfast'
import { check, memoryRecorder, printViolation, recorded } from 'holdfast/verify'
import { zookeeper } from '../../../src/drivers/zookeeper/index.js'
import { leakCheck } from '../../support/leaks.js'
import { startProxy, type TcpProxy } from '../../support/proxy.js'
import { startEnsemble, type ZookeeperServer } from '../../support/servers/zookeeper.js'
import { until } from '../../support/until.js'
import { Cables, quick } from './support/clients.js'

const sessionTimeout = 4_000
const ensemble = await startEnsemble()
const cables = await Cables.to(
  ensemble.servers.map(({ port }) => port),
  1,
)
const open = (): Locks =>
  createLocks(zookeeper({ servers: ensemble.addresses, ...quick, sessionTimeout }) as DriverFactory)

/** Two fifths of the time-out to notice, an eighth for each other server, and the election. */
const resumesWithin = sessionTimeout * (2 / 5 + 2 / 8) + 3_000
/** A frozen leader is replaced by the others after `syncLimit` ticks of silence: 10 of 500 ms. */
const frozenFor = 5_000

test('the leader killed under load: nobody holds beside another, tokens grow, and waiting goes on in time', async (t) => {
  const recorder = memoryRecorder()
  const clients = Array.from({ length: 4 }, open)
  const name = 'crowd'
  let served = 0
  let go = true
  const section = async () => {
    served++
    await new Promise(setImmediate)
  }
  const work = clients.map(async (locks) => {
    const lock = recorded(locks, recorder).mutex(name)
    // A lease that was lost, and a wait that ended in trouble, are what may happen here.
    while (go) await lock.run(section, { wait: 10_000, fair: true }).catch(() => undefined)
  })
  await until(() => served > 50)
  const leader = await ensemble.leader()
  for (const how of ['killed', 'frozen'] as const) {
    const present = how === 'killed' ? leader : await ensemble.leader()
    if (how === 'killed') await present.kill9()
    else present.pause()
    const begin = performance.now()
    const before = served
    await until(() => served > before + 5, { within: 20_000, every: 5 })
    const took = performance.now() - begin
    const bound = resumesWithin + (how === 'frozen' ? frozenFor : 0)
    assert.ok(took < bound, `${how}: waiting resumed after ${Math.round(took)} ms`)
    t.diagnostic(`leader ${how}: five more holders after ${Math.round(took)} ms`)
    if (how === 'killed') await present.restart()
    else present.resume()
    await until(async () => (await ensemble.followers()).length === 2, { within: 15_000, every: 50 })
  }
  go = false
  await Promise.all(work)
  const violations = check(recorder.history(), { falseBusy: false, liveness: { within: 20_000 } })
  assert.equal(violations.slice(0, 3).map(printViolation).join('\n\n'), '')
  for (const locks of clients) await locks.close()
})

test('a client whose server falls silent goes to another with its session, and neither lease nor place is lost', async () => {
  const factory = cables.factory()
  const locks = createLocks(factory)
  const other = open()
  await locks.mutex('kept').run(() => undefined)
  const lost: string[] = []
  locks.on('lost', ({ why }) => lost.push(why))
  const lease = await locks.mutex('kept').acquire()
  const holder = await other.mutex('waited for').acquire()
  const waiting = locks.mutex('waited for').acquire()
  await until(async () => (await other.inspect('waited for')).waiters.length === 1)
  const used = cables.of(factory).find(({ links }) => links.length > 0)
  assert.ok(used)
  used.blackHole()
  // Behind the one that is cut off.
  const behind = other.mutex('waited for').acquire({ fair: true })
  await until(() => cables.of(factory).some((cable) => cable !== used && cable.links.length > 0))
  await until(() => lease.remaining() > sessionTimeout * 0.6)
  await holder.release()
  const second = await waiting
  await second.release()
  assert.ok((await behind).token > second.token)
  await (await behind).release()
  assert.deepEqual(lost, [])
  assert.equal(await lease.release(), 'released')
  await Promise.all([locks.close(), other.close()])
})

test('two of three servers gone: leases are lost by their time, and locks are to be had again when one is back', async () => {
  const locks = open()
  const lease = await locks.mutex('majority').acquire()
  const { token } = lease
  const [, one, two] = ensemble.servers
  assert.ok(one && two)
  await Promise.all([one.kill9(), two.kill9()])
  const begin = performance.now()
  await until(() => lease.state === 'lost', { within: sessionTimeout, every: 5 })
  assert.ok(performance.now() - begin < sessionTimeout)
  await one.restart()
  const again = await locks.mutex('majority').acquire({ wait: 20_000 })
  assert.ok(again.token > token)
  await again.release()
  await locks.close()
})

test('a follower that has lost its leader and does not know keeps no lease alive: it is lost before another has the lock', async () => {
  const proxies = new Map<string, TcpProxy>()
  const parted = await startEnsemble({
    // The follower stays in its belief for 20 s, far longer than the session lasts.
    config: ['syncLimit=40'],
    between: async (from, to, port) => {
      const proxy = await startProxy({ port })
      proxies.set(`${from}>${to}`, proxy)
      return proxy.port
    },
  })
  const leader = await parted.leader()
  const [follower] = await parted.followers()
  assert.ok(follower)
  const at = (server: ZookeeperServer): Locks =>
    createLocks(zookeeper({ servers: server.address, ...quick, sessionTimeout }) as DriverFactory)
  const [a, b] = [at(follower), at(leader)]
  const lease = await a.mutex('parted').acquire()
  let heldAtGrant: boolean | undefined
  const next = b
    .mutex('parted')
    .acquire()
    .then((granted) => {
      heldAtGrant = lease.isHeld
      return granted
    })
  await until(async () => (await b.inspect('parted')).waiters.length === 1)
  // Renewed once at least, so that not the first claim alone is looked at.
  const first = lease.remaining()
  await until(() => lease.remaining() > first - 200 && lease.remaining() < first - 20)
  const link = proxies.get(`${parted.servers.indexOf(follower)}>${parted.servers.indexOf(leader)}`)
  assert.ok(link && link.links.length > 0, 'the follower does not follow through the proxy')
  link.blackHole()
  const second = await next
  assert.match(
    await follower.ask('srvr'),
    /Mode: follower/,
    'the follower has noticed too early for this test',
  )
  assert.equal(heldAtGrant, false, 'two clients believed to hold it')
  assert.ok(second.token > lease.token)
  await second.release()
  link.heal()
  await Promise.all([a.close(), b.close()])
  await parted.stop()
  for (const proxy of proxies.values()) await proxy.stop()
})

after(async () => {
  await cables.stop()
  await ensemble.stop()
})
after(leakCheck)
