// Faults of the network, the server and the session, on a real server behind a proxy.
// Second tier because it takes a third of a minute; the suite's outage and crash are the part for every change.
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { createLocks, type DriverFactory, type Locks } from 'holdfast'
import { zookeeper } from '../../src/drivers/zookeeper/index.js'
import { survivesClockJumps } from '../drivers/support/clock-jumps.js'
import { Cables, type Options, quick } from '../drivers/zookeeper/support/clients.js'
import { leakCheck } from '../support/leaks.js'
import type { TcpProxy } from '../support/proxy.js'
import { startZookeeper } from '../support/servers/zookeeper.js'
import { until } from '../support/until.js'

const server = await startZookeeper({ config: ['maxSessionTimeout=60000'] })
const cables = await Cables.to([server.port], 4)
/** So long that no pause of a busy machine ends a session, where none is to end. */
const steady: Options = { ...quick, sessionTimeout: 30_000 }
let names = 0

interface Scene {
  /** Behind a cable. */
  readonly cut: Locks
  readonly cable: TcpProxy
  /** Connected directly. */
  readonly direct: Locks
  readonly name: string
}

/** Both connected, and the node of the lock made. `direct` has a steady session in any case. */
async function scene(
  work: (scene: Scene) => Promise<void>,
  { options = steady }: { readonly options?: Options } = {},
): Promise<void> {
  const factory = cables.factory(options)
  const cut = createLocks(factory)
  const direct = createLocks(zookeeper({ servers: server.address, ...steady }) as DriverFactory)
  const name = `x${++names}`
  await direct.mutex(name).run(() => undefined)
  await cut.mutex(name).run(() => undefined)
  const [cable] = cables.of(factory)
  assert.ok(cable)
  try {
    await work({ cut, cable, direct, name })
  } finally {
    server.resume()
    cables.heal()
    await Promise.all([cut.close(), direct.close()])
  }
}

/** The reply to the next create is held, then the connection is reset. */
async function loseReply(cable: TcpProxy): Promise<void> {
  await cable.down.holding()
  cable.reset()
  cable.down.pass()
}

/** The session is back, with all that it has to make up for: a socket is there before that, and the old one for a while after. */
const back = (cut: Locks) =>
  until(() => cut.inspect('-').then(yes, no), { within: 60_000, what: 'the session to be back' })
const yes = () => true
const no = () => false

const waiters = async (locks: Locks, name: string) => (await locks.inspect(name)).waiters.length

describe('a lost reply', () => {
  test('to the create that takes the lock is recovered: one node, and it holds', () =>
    scene(async ({ cut, cable, direct, name }) => {
      cable.down.hold('lock-')
      const asked = cut.mutex(name).acquire()
      await loseReply(cable)
      const lease = await asked
      const { holders, waiters } = await direct.inspect(name)
      assert.deepEqual([holders.length, waiters.length, holders[0]?.token], [1, 0, lease.token])
      assert.equal(await lease.release(), 'released')
      assert.deepEqual((await direct.inspect(name)).holders, [])
    }))

  test('to the create of a waiter leaves it one queue entry, where it was', () =>
    scene(async ({ cut, cable, direct, name }) => {
      const holder = await direct.mutex(name).acquire()
      cable.down.hold('lock-')
      const asked = cut.mutex(name).acquire()
      await cable.down.holding()
      const behind = direct.mutex(name).acquire({ fair: true })
      await until(async () => (await waiters(direct, name)) === 2)
      await loseReply(cable)
      await holder.release()
      const lease = await asked
      assert.equal(await waiters(direct, name), 1)
      await lease.release()
      const next = await behind
      assert.ok(next.token > lease.token)
      await next.release()
    }))

  test('to the create of one that gives up meanwhile leaves nothing', () =>
    scene(async ({ cut, cable, direct, name }) => {
      cable.down.hold('lock-')
      const stop = new AbortController()
      const asked = assert.rejects(cut.mutex(name).acquire({ signal: stop.signal }), { message: 'gone' })
      await cable.down.holding()
      stop.abort(new Error('gone'))
      await asked
      assert.equal((await direct.inspect(name)).holders.length, 1)
      await loseReply(cable)
      await until(async () => (await direct.inspect(name)).holders.length === 0)
    }))

  test('to a create that never arrived is not waited for: the create is sent again', () =>
    scene(async ({ cut, cable, direct, name }) => {
      cable.up.hold('lock-')
      const asked = cut.mutex(name).acquire()
      await cable.up.holding()
      cable.reset()
      cable.up.pass()
      const lease = await asked
      assert.equal((await direct.inspect(name)).holders[0]?.token, lease.token)
      await lease.release()
    }))

  test('to a release frees the lock, and is never a release of the next holder', () =>
    scene(async ({ cut, cable, direct, name }) => {
      // A sixth of that is how long an answer is waited for.
      const lease = await cut.mutex(name).acquire({ ttl: 600_000 })
      const next = direct.mutex(name).acquire()
      await until(async () => (await waiters(direct, name)) === 1)
      cable.down.hold()
      const released = lease.release()
      await loseReply(cable)
      assert.equal(await released, 'released')
      const second = await next
      await back(cut)
      assert.equal(second.isHeld, true)
      assert.equal((await direct.inspect(name)).holders[0]?.token, second.token)
      assert.equal(await second.release(), 'released')
    }))

  test('to a writer becoming a reader leaves one place, and a release frees it', () =>
    scene(async ({ cut, cable, direct, name }) => {
      const { read, write } = cut.readWrite(name)
      const writer = await write.acquire()
      const reader = await read.acquire({ reentrant: writer })
      // The reply to the exchange tells the path of the new place.
      cable.down.hold('-shared-lock-')
      await Promise.all([writer.release(), loseReply(cable)])
      await back(cut)
      const { holders } = await direct.inspect(name)
      assert.deepEqual(
        holders.map(({ mode, attempt }) => [mode.kind, attempt.length]),
        [['shared', 32]],
      )
      assert.equal(reader.isHeld, true)
      // Readers get in beside it.
      await (await direct.readWrite(name).read.acquire()).release()
      assert.equal(await reader.release(), 'released')
      await until(async () => (await direct.inspect(name)).holders.length === 0)
    }))
})

describe('permits', () => {
  const two = (locks: Locks, name: string) => locks.semaphore(name, { permits: 2 })

  test('a permit that watches the entry before it only after that entry has announced its hold holds beside it', () =>
    scene(async ({ cut, cable, direct, name }) => {
      const both = await two(direct, name).acquire({ permits: 2 })
      const before = two(direct, name).acquire({ fair: true })
      await until(async () => (await waiters(direct, name)) === 1)
      const [{ attempt } = { attempt: '' }] = (await direct.inspect(name)).waiters
      cable.up.hold(attempt)
      const behind = two(cut, name).acquire()
      await cable.up.holding()
      await both.release()
      const one = await before
      // What was sent before that has been carried out.
      await direct.inspect(name)
      cable.up.pass()
      await (await soon(behind)).release()
      await one.release()
    }))

  test('the notification of a free permit to the entry behind is repeated when the connection breaks', () =>
    scene(async ({ cut, cable, direct, name }) => {
      const both = await two(direct, name).acquire({ permits: 2 })
      const before = two(cut, name).acquire()
      await until(async () => (await waiters(direct, name)) === 1)
      const [{ attempt } = { attempt: '' }] = (await direct.inspect(name)).waiters
      const behind = two(direct, name).acquire({ fair: true })
      await until(async () => (await waiters(direct, name)) === 2)
      // Its watch is set.
      await direct.inspect(name)
      cable.up.hold(attempt)
      await both.release()
      await cable.up.holding()
      cable.reset()
      cable.up.pass()
      await (await soon(behind)).release()
      await (await before).release()
    }))

  async function soon<T>(work: Promise<T>): Promise<T> {
    let done = false
    const settled = () => {
      done = true
    }
    work.then(settled, settled)
    await until(() => done, { within: 20_000, what: 'the permit beside the first' })
    return work
  }
})

describe('a session that is cut off', () => {
  test('finds a deletion it has missed, and keeps its position in the queue', () =>
    scene(async ({ cut, cable, direct, name }) => {
      const holder = await direct.mutex(name).acquire()
      const asked = cut.mutex(name).acquire()
      await until(async () => (await waiters(direct, name)) === 1)
      const behind = direct.mutex(name).acquire({ fair: true })
      await until(async () => (await waiters(direct, name)) === 2)
      cable.blackHole()
      await holder.release()
      let early = false
      behind.then(
        () => {
          early = true
        },
        () => undefined,
      )
      cable.heal()
      cable.reset()
      const lease = await asked
      assert.equal(early, false)
      await lease.release()
      const next = await behind
      assert.ok(next.token > lease.token)
      await next.release()
    }))

  test('and over is queued again, behind those who came since', () => {
    const work = async ({ cut, cable, direct, name }: Scene) => {
      const holder = await direct.mutex(name).acquire()
      const asked = cut.mutex(name).acquire()
      await until(async () => (await waiters(direct, name)) === 1)
      const behind = direct.mutex(name).acquire({ fair: true })
      await until(async () => (await waiters(direct, name)) === 2)
      cable.blackHole()
      await until(async () => (await waiters(direct, name)) === 1, { within: 20_000 })
      cable.heal()
      await until(async () => (await waiters(direct, name)) === 2, { within: 20_000 })
      await holder.release()
      const first = await behind
      await first.release()
      const lease = await asked
      assert.ok(lease.token > first.token)
      await lease.release()
    }
    return scene(work, { options: quick })
  })

  test('does not take its node for granted when it is back: an operator had removed it', () =>
    scene(async ({ cut, cable, direct, name }) => {
      const lease = await cut.mutex(name).acquire()
      cable.blackHole()
      assert.equal(await direct.forceRelease(name), 1)
      const second = await direct.mutex(name).acquire()
      cable.heal()
      cable.reset()
      await until(() => lease.state === 'lost')
      assert.equal(second.isHeld, true)
      assert.equal(await lease.release(), 'lost')
      assert.equal((await direct.inspect(name)).holders[0]?.token, second.token)
      await second.release()
    }))
})

test('a frozen server ends no lease early, and the session continues when it wakes up', () => {
  const work = async ({ cut, direct, name }: Scene) => {
    const lease = await cut.mutex(name).acquire()
    const states: string[] = []
    for (const event of ['doubtful', 'lost'] as const) cut.on(event, () => states.push(event))
    const next = direct.mutex(name).acquire()
    await until(async () => (await waiters(direct, name)) === 1)
    server.pause()
    await until(() => states.includes('doubtful'), { within: 20_000 })
    assert.equal(lease.isHeld, true)
    const left = lease.remaining()
    server.resume()
    await until(() => lease.remaining() > left, { within: 20_000 })
    assert.ok(!states.includes('lost'))
    assert.equal(await lease.release(), 'released')
    await (await next).release()
  }
  // From the first doubt to the end of such a session it is more than four seconds.
  return scene(work, { options: { ...quick, sessionTimeout: 10_000 } })
})

test('a lock taken by force is not taken from the next one, too, when the answer was lost', () =>
  scene(async ({ cut, cable, direct, name }) => {
    const holder = await direct.mutex(name).acquire()
    const waiting = direct.mutex(name).acquire({ fair: true })
    await until(async () => (await waiters(direct, name)) === 1)
    const isRemoval = (bytes: Buffer) => bytes.length > 12 && bytes.readInt32BE(8) === 2
    cable.up.hold(isRemoval)
    const forced = cut.forceRelease(name)
    await cable.up.holding()
    cable.down.hold()
    cable.up.pass()
    const next = await waiting
    await loseReply(cable)
    assert.equal(await forced, 1)
    assert.ok(next.token > holder.token)
    assert.equal((await direct.inspect(name)).holders[0]?.token, next.token)
    assert.equal(await next.release(), 'released')
    await holder.release()
  }))

test('a lease that was renewed before notices that an operator removed its node, without another renewal', () =>
  scene(async ({ cut, direct, name }) => {
    const reasons: string[] = []
    cut.on('lost', ({ why }) => reasons.push(why))
    const lease = await cut.mutex(name).acquire({ ttl: 60_000, autoRenew: false })
    // Renewed by hand, once: only the watch set then can tell.
    await lease.extend()
    await direct.forceRelease(name)
    await until(() => lease.state === 'lost')
    assert.deepEqual(reasons, ['revoked'])
  }))

test('a server that is restarted keeps sessions, places and leases', () =>
  scene(async ({ cut, direct, name }) => {
    const lease = await cut.mutex(name).acquire()
    const next = direct.mutex(name).acquire()
    await until(async () => (await waiters(direct, name)) === 1)
    await server.restart()
    await back(cut)
    await lease.extend()
    assert.equal(lease.isHeld, true)
    await lease.release()
    const second = await next
    assert.ok(second.token > lease.token)
    await second.release()
  }))

test('a client whose wall clock jumps holds on, and is served when it is its turn', async (t) => {
  const direct = createLocks(zookeeper({ servers: server.address, ...steady }) as DriverFactory)
  t.after(() => direct.close())
  const module = new URL('../drivers/zookeeper/support/in-child.js', import.meta.url).href
  await survivesClockJumps(t, direct, { module, args: [{ servers: server.address, ...steady }] })
})

describe('a login', () => {
  const auth = { scheme: 'digest', credential: 'locks:s3cret' }
  const open = (more: object): Locks =>
    createLocks(
      zookeeper({ servers: server.address, ...quick, chroot: '/guarded', ...more }) as DriverFactory,
    )

  test('with acl `creator` excludes clients without a login, and says what is missing', async () => {
    const [mine, also, stranger] = [open({ auth, acl: 'creator' }), open({ auth }), open({})]
    await mine.mutex('x').run(() => undefined)
    await also.mutex('x').run(() => undefined)
    await assert.rejects(stranger.mutex('x').acquire(), (error: Error) => {
      return (error as { code?: unknown }).code === 'BACKEND' && /lacks a right/.test(error.message)
    })
    for (const locks of [mine, also, stranger]) await locks.close()
  })

  test('that the server does not know is an error at once, not a wait', async () => {
    const locks = open({ auth: { scheme: 'nonsense', credential: 's3cret' } })
    await assert.rejects(
      locks.mutex('y').acquire({ wait: Number.POSITIVE_INFINITY }),
      (error: Error) => /login was refused/.test(error.message) && !/s3cret/.test(String(error.cause)),
    )
    await locks.close()
  })
})

test('a lease reports the validity that the granted session allows, and has that much at any moment', async () => {
  // It grants 10 s at most: twenty of its ticks.
  await using usual = await startZookeeper()
  const options = { servers: usual.address, tickTime: 500, sessionTimeout: 20_000 }
  const locks = createLocks(zookeeper(options))
  const lease = await locks.mutex('worth').acquire({ ttl: 600_000 })
  assert.equal(locks.driver.traits.maxTtl, 13_131)
  assert.equal(lease.ttl, 6_564)
  const end = performance.now() + 4_000
  await until(() => {
    assert.ok(lease.remaining() >= 0.9 * lease.ttl, `${lease.remaining()} of ${lease.ttl}`)
    return performance.now() > end
  })
  const short = await locks.mutex('short').acquire({ ttl: 1_000, lockDelay: 1_000 })
  assert.equal(short.ttl, 1_000)
  await locks.close()
})

test('a session shorter than three ticks is refused, whether requested or granted, with the numbers', async () => {
  await using usual = await startZookeeper()
  const servers = usual.address
  assert.throws(() => zookeeper({ servers, sessionTimeout: 8_000 }), {
    name: 'RangeError',
    message: /at least 3 ticks of the servers, 9000 ms with tickTime 3000, got 8000; set tickTime to theirs/,
  })
  const locks = createLocks(zookeeper({ servers, sessionTimeout: 15_000, tickTime: 4_000 }))
  await assert.rejects(locks.mutex('refused').acquire(), {
    name: 'BackendError',
    message: /granted a session of 10000 ms, which is less than 3 ticks of 4000 ms.*set tickTime/,
  })
  await locks.close()
})

test('close() ends operators’ requests while no server is reached, and the process keeps running', () =>
  scene(async ({ cut, cable, name }) => {
    cable.blackHole()
    cable.reset()
    const asked = [() => cut.inspect(name), () => cut.list(), () => cut.forceRelease(name)].map((ask) =>
      assert.rejects(ask(), { code: 'CLOSED' }),
    )
    await new Promise((resolve) => setTimeout(resolve, 50))
    await cut.close()
    await Promise.all(asked)
  }))

after(async () => {
  await cables.stop()
  await server.stop()
})

after(leakCheck)
