/** What goes wrong in Consul. */
import type { ConsulServer } from '../../test/support/servers/consul.js'
import { until } from '../../test/support/until.js'
import { holdfastConsul, holdfastLockDelay } from './holdfast-shared.js'
import { resource, sceneTimeout } from './lock.js'
import { lockPath, naiveSessionLock } from './naive-consul-locks.js'
import { first, onShared, type Scene } from './scene.js'
import { elapsed, order } from './scene-context.js'

const store = 'consul'

/** As an operator does it, or a health check that fails. */
async function endSession(server: ConsulServer, room: string): Promise<void> {
  const [lock] = (await server.ask('GET', `/v1/kv/${lockPath(room, order)}`)) as [{ Session?: string }]
  await server.ask('PUT', `/v1/session/destroy/${lock.Session}`)
}

async function kept(server: ConsulServer, room: string): Promise<string> {
  const [found] = (await server.ask('GET', `/v1/kv/${room}/${resource}`)) as [{ Value: string }]
  return Buffer.from(found.Value, 'base64').toString()
}

export const lockDelay: Scene = onShared({
  name: 'lock-delay',
  store,
  title: 'A write on its way',
  story:
    'A has sent a write that is slow to arrive. Its session ends, B takes the lock and writes. A second after the end of the session the write of A arrives.',
  holdfastDoes:
    'With `lockDelay` a lock stays unavailable for a while after its holder’s session has ended, so that writes in flight can arrive. For resources that can check tokens, a guard is better.',
  page: 'drivers/consul.md#how-it-works',
  naive: naiveSessionLock,
  holdfast: holdfastLockDelay,
  server: ({ servers }) => servers.consul(),
  async run({ place: { history, prefix }, server, member, way }) {
    const [a, b] = [await member('A'), await member('B')]
    const held = await first(a, 10_000)
    // Neither of them checks a token here.
    const write = ({ at }: typeof a, value: string) => naiveSessionLock.write(at, value, held)
    a.cable.up.hold()
    const older = write(a, 'older')
    await a.cable.up.holding()
    history.fault('its session is ended', a.pid)
    await endSession(server, prefix)
    const follows = async () => {
      const next = await until(() => b.lock.take(order, 10_000, sceneTimeout), { within: sceneTimeout })
      await write(b, 'newer')
      return next
    }
    const newer = follows()
    // By hand only a busy machine could keep B from being first.
    const arrives = Promise.all([elapsed(1_000), way === naiveSessionLock && newer]).then(() => {
      a.cable.up.letGo()
      return older
    })
    const [next] = await Promise.all([newer, arrives])
    a.cable.up.pass()
    const stands = (await kept(server, prefix)) === 'newer'
    await elapsed(300)
    await next.release()
    return stands
      ? { ok: true, saw: 'B had the lock when the write of A had arrived' }
      : { ok: false, saw: 'the late write has replaced the newer one' }
  },
})

export const sessionEnded: Scene = onShared({
  name: 'session-ended',
  store,
  title: 'The session is ended from outside',
  story:
    'An operator, or a health check, ends the session of A while it works. B takes the lock and writes; then A writes.',
  holdfastDoes:
    'Both hold until A’s next renewal; no lock in Consul prevents that. Then A is notified, and the guard refuses its older token. Sessions of holdfast have no health checks.',
  page: 'guard.md#etcd-zookeeper-and-consul',
  naive: naiveSessionLock,
  holdfast: holdfastConsul,
  server: ({ servers }) => servers.consul(),
  async run({ place: { history, prefix }, server, member, way }) {
    const [a, b] = [await member('A'), await member('B')]
    const held = await first(a, 3_000)
    history.fault('its session is ended', a.pid)
    await endSession(server, prefix)
    const next = await until(() => b.lock.take(order, 10_000, sceneTimeout), { within: sceneTimeout })
    await way.write(b.at, 'newer', next)
    const late = await way.write(a.at, 'older', held)
    // A renewal is due every second.
    await until(() => !held.isHeld, { within: 3_000 }).catch(() => undefined)
    const told = !held.isHeld
    const stands = (await kept(server, prefix)) === 'newer'
    await next.release()
    const wrote = stands ? `was ${late}` : 'has replaced the newer one'
    return {
      ok: stands && told,
      saw: `the write of A ${wrote}; A was ${told ? 'notified at its next renewal' : 'never notified'}`,
    }
  },
})

export const missedWakeUp: Scene = onShared({
  name: 'missed-wake-up',
  store,
  title: 'The wake-up is missed',
  story: 'B finds the lock taken. Before it starts to watch for changes, A releases.',
  holdfastDoes:
    'The query starts at the index of the read that found the lock taken, so a change since then answers it at once. The lock by hand starts at the index of a later read.',
  page: 'drivers/consul.md#how-it-works',
  naive: naiveSessionLock,
  holdfast: holdfastConsul,
  server: ({ servers }) => servers.consul(),
  async run({ member }) {
    const [a, b] = [await member('A'), await member('B')]
    const held = await first(a, 20_000)
    b.cable.up.hold('GET /v1/kv')
    const asked = b.lock.take(order, 20_000, 5_000)
    await b.cable.up.holding()
    await held.release()
    b.cable.up.pass()
    const next = await asked
    await elapsed(300)
    await next?.release()
    return next === undefined
      ? { ok: false, saw: 'B waited 5 s for a lock that was free' }
      : { ok: true, saw: 'B has it as soon as its query arrives' }
  },
})
