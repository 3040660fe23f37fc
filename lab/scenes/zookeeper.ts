/** What goes wrong in ZooKeeper. */
import { startZookeeper, type ZookeeperServer } from '../../test/support/servers/zookeeper.js'
import { until } from '../../test/support/until.js'
import { holdfastZookeeper, simpleZookeeper } from './holdfast-shared.js'
import { maxTtl, type SharedWay, sceneTimeout } from './lock.js'
import { naiveQueue } from './naive-zookeeper-locks.js'
import { believedBy, first, type Outcome, onShared, type Scene } from './scene.js'
import { elapsed, order, type SceneContext } from './scene-context.js'

const page = 'hazards.md#zookeeper'
const store = 'zookeeper'
/** For scenes that are not about the end of a session: the longest session of a server that ticks every 500 ms. */
const calm = 10_000

/** The notifications and requests that the server has counted so far. */
async function counted(server: ZookeeperServer): Promise<{ readonly fired: number; readonly asked: number }> {
  const reply = await server.ask('mntr')
  const figure = (name: string) => Number(new RegExp(`^zk_${name}\\s+(\\d+)`, 'm').exec(reply)?.[1])
  return { fired: figure('sum_node_deleted_watch_count'), asked: figure('packets_received') }
}

const crowd = 10

export const herd: Scene = onShared({
  name: 'herd',
  store,
  title: 'The herd',
  story: `${crowd} wait for A. When A releases they have the lock one after the other, each for a moment.`,
  holdfastDoes:
    "Each waiter has a queue entry and watches the one before it: one release wakes one waiter. The textbook lock is kept as `strategy: 'simple'`, for comparison.",
  page: 'drivers/zookeeper.md#strategy-simple',
  session: calm,
  naive: simpleZookeeper,
  holdfast: holdfastZookeeper,
  // The server is asked for its own count, so nobody else may use it.
  async server(place) {
    const server = await startZookeeper()
    place.keep(() => server.stop())
    return server
  },
  async run(competitors) {
    const { server } = competitors
    const a = await competitors.member('A')
    const others = await Promise.all(
      Array.from({ length: crowd }, (_, i) => competitors.member(String.fromCharCode(66 + i))),
    )
    const held = await first(a, maxTtl)
    const served = others.map(async ({ lock }) => {
      const next = await lock.take(order, maxTtl, sceneTimeout)
      await elapsed(60)
      await next?.release()
    })
    const watches = async () => Number(/Total watches:(\d+)/.exec(await server.ask('wchs'))?.[1])
    await until(async () => (await watches()) >= crowd, { within: sceneTimeout })
    const before = await counted(server)
    await held.release()
    await Promise.all(served)
    const after = await counted(server)
    const woken = after.fired - before.fired
    const requests = after.asked - before.asked
    return {
      // On a busy machine a holder may have watched its own node, too: that watch fires as well, but wakes no waiter.
      ok: woken < 2 * crowd,
      saw: `${requests} requests for ${crowd} releases, which woke ${woken} waiters`,
    }
  },
})

export const sessionExpiry: Scene = onShared({
  name: 'session-expiry',
  store,
  title: 'The session ends, the holder works on',
  story: 'A is cut off for longer than its session lasts, and keeps working. B waits in the queue.',
  holdfastDoes:
    'By its own clock, A stops relying on its session before the leader can end it. So A learns of the loss before B can get the lock.',
  page,
  naive: naiveQueue,
  holdfast: holdfastZookeeper,
  server: ({ servers }) => servers.zookeeper(),
  async run(competitors) {
    const [a, b] = [await competitors.member('A'), await competitors.member('B')]
    const held = await first(a, maxTtl)
    const asked = b.lock.take(order, maxTtl, sceneTimeout)
    competitors.place.history.fault('cut off', a.pid)
    a.cable.blackHole()
    return believedBy(held, await asked)
  },
})

export const lostReply: Scene = onShared({
  name: 'lost-create-reply',
  store,
  title: 'The reply to the create is lost',
  story:
    'A creates its node; the connection breaks before the reply arrives. A asks once more, in the same session. B queues after it.',
  holdfastDoes:
    'The name of a node contains the id of the attempt, so A finds the node it has created. By hand there are two nodes, and the second waits for the first, which disappears only with the session.',
  page,
  session: calm,
  naive: naiveQueue,
  holdfast: holdfastZookeeper,
  server: ({ servers }) => servers.zookeeper(),
  async run(competitors) {
    const [a, b] = [await competitors.member('A'), await competitors.member('B')]
    // The reply to a create contains the node's name.
    a.cable.down.hold((bytes) => /\/(n|_c_[\da-f-]+-lock)-/.test(bytes.toString('latin1')))
    const mine = a.lock.take(order, maxTtl, 4_000)
    await a.cable.down.holding()
    competitors.place.history.fault('the reply is lost', a.pid)
    a.cable.reset()
    a.cable.down.pass()
    const next = b.lock.take(order, maxTtl, 4_000)
    const held = await mine
    await elapsed(500)
    await held?.release()
    const served = await next
    await elapsed(200)
    await served?.release()
    return held !== undefined && served !== undefined
      ? { ok: true, saw: 'A has the lock, and B after it' }
      : { ok: false, saw: 'A waits for a node of its own, and all others wait behind it' }
  },
})

/** Long enough for an election on a busy machine. */
const session = 6_000

function withoutLeader(way: SharedWay, addresses: 'the leader’s' | 'all'): Scene['naive'] {
  return {
    title: addresses === 'all' ? way.title : `${way.title}, one address`,
    play: (place) => place.servers.inTurn(() => loseLeader(place, way, addresses === 'all')),
  }
}

async function loseLeader(place: SceneContext, way: SharedWay, all: boolean): Promise<Outcome> {
  const ensemble = await place.servers.ensemble()
  const leader = await ensemble.leader()
  const join = (name: string, pid: number, address: string) => {
    const lock = way.open({ address, room: place.prefix, session }, place.history.recorder(name, pid))
    place.keep(() => lock.close())
    return { lock }
  }
  const everywhere = ensemble.addresses.join(',')
  const [a, b] = [join('A', 1, all ? everywhere : leader.address), join('B', 2, everywhere)]
  const held = await first(a, session)
  const asked = b.lock.take(order, session, sceneTimeout)
  const back = place.history.fault('the leader is killed')
  await leader.kill9()
  // With one address the session of A ends, in its time after the election; with all of them it must not, so B gets nothing.
  const early = await (all ? Promise.race([asked, elapsed(session + 3_000)]) : asked)
  try {
    if (early) return await believedBy(held, early)
    await held.release()
    const next = await asked
    await elapsed(300)
    await next?.release()
    return next === undefined
      ? { ok: false, saw: 'B waits for ever' }
      : { ok: true, saw: 'A kept the lock all along, and B had it next' }
  } finally {
    await leader.restart()
    back()
    await until(async () => (await ensemble.followers()).length === 2, { within: sceneTimeout, every: 50 })
  }
}

export const leaderLoss: Scene = {
  name: 'leader-loss',
  store,
  title: 'The leader is lost',
  story:
    'The leader of three servers is killed while A holds the lock and B waits. The A by hand knew only one server, the leader.',
  holdfastDoes:
    'A moves to another server with the same session: its queue entry and its lease stay. If no server were left, A would learn of the loss before B could get the lock.',
  page: 'drivers/zookeeper.md#the-session',
  naive: withoutLeader(naiveQueue, 'the leader’s'),
  holdfast: withoutLeader(holdfastZookeeper, 'all'),
}
