// Three servers, of which one fails: the leader, or the one a client talks to.
// Second tier because a cluster is a topology of its own, and its leaders take a while to be replaced.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import { after, test } from 'node:test'
import { createLocks, type DriverFactory, type Locks } from 'holdfast'
import { zookeeper } from '../../src/drivers/zookeeper/index.js'
import { Cables, quick } from '../drivers/zookeeper/support/clients.js'
import { startRelay } from '../drivers/zookeeper/support/relay.js'
import { leakCheck } from '../support/leaks.js'
import { startProxy, type TcpProxy } from '../support/proxy.js'
import { startEnsemble, type ZookeeperServer } from '../support/servers/zookeeper.js'
import { until } from '../support/until.js'

const sessionTimeout = 4_000
const patient = { within: 60_000 }
const ensemble = await startEnsemble({ config: ['maxSessionTimeout=60000'] })
const cables = await Cables.to(
  ensemble.servers.map(({ port }) => port),
  1,
)
const open = (timeout: number): Locks =>
  createLocks(zookeeper({ servers: ensemble.addresses, ...quick, sessionTimeout: timeout }) as DriverFactory)

const yes = () => true
const no = () => false

test('a client whose server falls silent moves to another with its session, and loses neither lease nor queue entry', async () => {
  const factory = cables.factory({ sessionTimeout: 12_000 })
  const locks = createLocks(factory)
  const other = open(30_000)
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
  await until(() => cables.of(factory).some((cable) => cable !== used && cable.links.length > 0), patient)
  // Proven again, by the other.
  let left = lease.remaining()
  const proven = () => {
    const before = left
    left = lease.remaining()
    return left > before
  }
  await until(proven, patient)
  await holder.release()
  const second = await waiting
  await second.release()
  assert.ok((await behind).token > second.token)
  await (await behind).release()
  assert.deepEqual(lost, [])
  assert.equal(await lease.release(), 'released')
  await Promise.all([locks.close(), other.close()])
})

test('requests that are refused because the session has moved to another server are asked again, however the server says so', async () => {
  const [first, second] = ensemble.servers
  assert.ok(first && second)
  await using proxy = await startProxy({ port: first.port })
  const servers = `${proxy.host}:${proxy.port}`
  const locks = createLocks(zookeeper({ servers, ...quick, sessionTimeout: 30_000 }) as DriverFactory)
  proxy.down.hold()
  const names = Array.from({ length: 20 }, (_, i) => `moved ${i}`)
  const use = (name: string) => locks.mutex(name).run(() => undefined, { wait: 60_000 })
  const connected = use('moved 0')
  const [accepted] = await proxy.down.holding()
  assert.ok(accepted)
  proxy.down.pass()
  await connected
  await Promise.all(names.map(use))
  // As when an old attempt to connect reaches a server late: that one has the session now, and the client does not know.
  const late = connect({ host: second.host, port: second.port })
  late.write(connectRequest(accepted.bytes))
  await once(late, 'data')
  late.destroy()
  // The write is left without an answer, or the connection ends at once: then the reads that were sent with it may be answered before.
  await Promise.all(names.map(use))
  await locks.close()
})

test('a request that is never answered although the one after it is ends with its connection, and its place is found again', async () => {
  const [first] = ensemble.servers
  assert.ok(first)
  const relay = await startRelay(first.port)
  const servers = `127.0.0.1:${relay.port}`
  const locks = createLocks(zookeeper({ servers, ...quick, sessionTimeout: 30_000 }) as DriverFactory)
  await locks.mutex('unanswered').run(() => undefined)
  relay.swallow()
  const lease = await locks.mutex('unanswered').acquire({ wait: 60_000 })
  assert.equal(relay.swallowed, 1)
  assert.equal(await lease.release(), 'released')
  const { holders, waiters } = await locks.inspect('unanswered')
  assert.deepEqual([holders, waiters], [[], []])
  await locks.close()
  await relay.stop()
})

/** Asks for the session of which `accepted` is the server's answer: length, version, time-out, id, password. */
function connectRequest(accepted: Buffer): Buffer {
  const request = Buffer.alloc(4 + 45)
  request.writeInt32BE(45, 0)
  // After version 0 and zxid 0: the time-out, then the id and the password with its length.
  accepted.copy(request, 16, 8, 12)
  accepted.copy(request, 20, 12, 40)
  return request
}

test('two of three servers gone: leases are lost by their time, and locks are granted again when one is back', async () => {
  const locks = open(sessionTimeout)
  const lease = await locks.mutex('majority').acquire()
  const { token } = lease
  const [, one, two] = ensemble.servers
  assert.ok(one && two)
  await Promise.all([one.kill9(), two.kill9()])
  const begin = performance.now()
  // At no moment is it believed in for longer than the session lasts without them.
  const over = () => {
    const now = performance.now()
    assert.ok(lease.state === 'lost' || now + lease.remaining() < begin + sessionTimeout)
    return lease.state === 'lost'
  }
  await until(over, patient)
  await one.restart()
  const again = await locks.mutex('majority').acquire({ wait: 120_000 })
  assert.ok(again.token > token)
  await again.release()
  await locks.close()
})

test('a follower that has lost its leader without noticing keeps no lease alive: the lease is lost before another client has the lock', async () => {
  const proxies = new Map<string, TcpProxy>()
  const parted = await startEnsemble({
    // The follower stays in its belief for 20 s, far longer than the session lasts.
    config: ['syncLimit=40'],
    between: async (from, to, port) => {
      await proxies.get(`${from}>${to}`)?.stop()
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
  // Renewed once, so that not the first claim alone is looked at. A server that is late may cost the connection, and the renewal with it.
  await until(() => lease.extend().then(yes, no))
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
