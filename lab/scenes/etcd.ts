/** What goes wrong in etcd. */
import type { EtcdServer } from '../../test/support/servers/etcd.js'
import { until } from '../../test/support/until.js'
import { electionEtcd, holdfastEtcd } from './holdfast-shared.js'
import { sceneTimeout } from './lock.js'
import { everyPlace, naiveQueueEtcd } from './naive-etcd-locks.js'
import { believedBy, first, onShared, type Scene } from './scene.js'
import { elapsed, order } from './scene-context.js'

const store = 'etcd'
const ttl = 2_000

interface PlaceKey {
  readonly lease: string
}

async function line(server: EtcdServer, room: string): Promise<readonly PlaceKey[]> {
  const asked = { ...everyPlace({ room }, order), sort_target: 'CREATE', sort_order: 'ASCEND' }
  const { kvs } = await server.ask('/v3/kv/range', asked)
  return (kvs ?? []) as readonly PlaceKey[]
}

/** The scene continues once this many entries exist. */
async function waitForEntries(server: EtcdServer, room: string, many: number): Promise<void> {
  const there = async () => (await line(server, room)).length === many
  await until(there, { within: sceneTimeout, what: `${many} in the queue` })
}

export const deadLeader: Scene = onShared({
  name: 'dead-leader',
  store,
  title: 'The leader is cut off',
  story: 'A is elected, then cut off for longer than its lease. B is the next candidate.',
  holdfastDoes:
    'A term ends by the leader’s own clock, counted from the last answered request, before etcd can expire the lease. By hand the keepalive fails in the background, and two lead.',
  page: 'primitives.md#elections',
  naive: naiveQueueEtcd,
  holdfast: electionEtcd,
  server: ({ servers }) => servers.etcd(),
  async run(competitors) {
    const [a, b] = [await competitors.member('A'), await competitors.member('B')]
    const held = await first(a, ttl)
    const asked = b.lock.take(order, ttl, sceneTimeout)
    competitors.place.history.fault('cut off', a.pid)
    a.cable.blackHole()
    return believedBy(held, await asked)
  },
})

export const endedInLine: Scene = onShared({
  name: 'ended-in-line',
  store,
  title: 'The lease ends while one waits',
  story:
    'A holds the lock, B and C wait in the queue. The lease of B ends, as it does when B is paused for long. Then A releases.',
  holdfastDoes:
    'A waiter checks that its own queue entry still exists before it takes the lock. B queues again, behind C.',
  page: 'drivers/etcd.md#how-it-works',
  naive: naiveQueueEtcd,
  holdfast: holdfastEtcd,
  server: ({ servers }) => servers.etcd(),
  async run({ place, server, member }) {
    const [a, b, c] = [await member('A'), await member('B'), await member('C')]
    const held = await first(a, 10_000)
    const takes: Promise<unknown>[] = []
    // It includes A.
    let [inside, most] = [1, 1]
    for (const [many, { lock }] of [b, c].entries()) {
      const visit = async () => {
        const next = await lock.take(order, many === 0 ? ttl : 10_000, sceneTimeout)
        most = Math.max(most, ++inside)
        await elapsed(1_000)
        inside--
        await next?.release()
      }
      takes.push(visit())
      await waitForEntries(server, place.prefix, many + 2)
    }
    place.history.fault('the lease ends', b.pid)
    const second = (await line(server, place.prefix))[1]
    await server.ask('/v3/lease/revoke', { ID: second?.lease })
    // Time for a lock that checks to find out.
    await elapsed(ttl)
    inside--
    await held.release()
    await Promise.all(takes)
    return most > 1 ? { ok: false, saw: 'B and C hold it at once' } : { ok: true, saw: 'one after the other' }
  },
})

export const compaction: Scene = onShared({
  name: 'compaction',
  store,
  title: 'A watch from a time that is gone',
  story:
    'B has read that A holds the lock, and its watch is in flight when A releases. Before the watch arrives, the history up to then is compacted.',
  holdfastDoes:
    'When the server cancels a watch, the driver reads the queue again instead of waiting. The lock by hand keeps waiting, and no event ever arrives.',
  page: 'drivers/etcd.md#guarantees',
  naive: naiveQueueEtcd,
  holdfast: holdfastEtcd,
  server: ({ servers }) => servers.etcd(),
  async run({ place, server, member }) {
    const [a, b] = [await member('A'), await member('B')]
    const held = await first(a, 10_000)
    b.cable.up.hold('/v3/watch')
    const asked = b.lock.take(order, 10_000, 5_000)
    await b.cable.up.holding()
    await held.release()
    // Some of the next requests write, too, so the compacted revision is in the past.
    for (let i = 0; i < 3; i++) await server.ask('/v3/kv/put', { key: 'YQ==' })
    const { header } = (await server.ask('/v3/kv/range', { key: 'YQ==' })) as { header: { revision: string } }
    place.history.fault('compaction')
    await server.ask('/v3/kv/compaction', { revision: header.revision, physical: true })
    b.cable.up.pass()
    const next = await asked
    await elapsed(300)
    await next?.release()
    return next === undefined
      ? { ok: false, saw: 'B waited 5 s for a lock that was free' }
      : { ok: true, saw: 'B has it as soon as its watch is refused' }
  },
})
