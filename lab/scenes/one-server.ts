/** What goes wrong with one healthy server. */
import { until } from '../../test/support/until.js'
import { holdfastRedis } from './holdfast-locks.js'
import { resource, sceneTimeout } from './lock.js'
import { setNxCompare, setNxDel, setnxExpire } from './naive-redis-locks.js'
import { first, type RedisScene } from './scene.js'
import { elapsed, order } from './scene-context.js'

export const noExpiry: RedisScene = {
  name: 'no-expiry',
  title: 'SETNX without an expiry',
  story:
    'The holder is killed (-9) at its first opportunity: between SETNX and EXPIRE, where there are two commands.',
  holdfastDoes: 'One script takes the lock and writes its deadline. The lock is free again after its ttl.',
  page: 'hazards.md#one-server',
  naive: setnxExpire,
  holdfast: holdfastRedis,
  servers: 1,
  async run(stage) {
    const { history, server } = stage
    const b = await stage.player('B')
    const cable = await stage.cable()
    cable.up.hold((bytes) => /\$7\r\npexpire\r\n/i.test(bytes.toString()))
    const a = stage.child('A', 'hold', 1_000, [cable.port])
    await Promise.race([cable.up.holding(), a.holds()])
    history.fault('kill', a.pid)
    await a.kill()
    cable.up.drop()
    const held = await b.lock.take(order, 1_000, 4_000)
    if (held !== undefined) await elapsed(200)
    await held?.release()
    if (held !== undefined) return { ok: true, saw: 'free again after its ttl of 1 s' }
    const left = await server.cli('PTTL', order)
    return { ok: false, saw: left === -1 ? 'taken for ever: the key has no expiry' : 'still taken after 4 s' }
  },
}

export const wrongDelete: RedisScene = {
  name: 'wrong-delete',
  title: 'Somebody else’s lock is deleted',
  story: 'A is cut off for longer than its ttl, B takes over, A comes back and releases. Then C tries.',
  holdfastDoes:
    'A release carries the id of its attempt and touches no other. A learns of its loss before B can get the lock.',
  page: 'hazards.md#one-server',
  naive: setNxDel,
  holdfast: holdfastRedis,
  servers: 1,
  async run(stage) {
    const [a, b, c] = [await stage.player('A'), await stage.player('B'), await stage.player('C')]
    // A single attempt must be answered within its ttl, even on a busy machine.
    const held = await first(a, 3_000)
    const healed = stage.history.fault('cut off', a.pid)
    for (const cable of a.cables) cable.blackHole()
    const next = await b.lock.take(order, 30_000, sceneTimeout)
    for (const cable of a.cables) cable.heal()
    healed()
    await held.release()
    const intruder = await c.lock.take(order, 30_000, 0)
    await elapsed(300)
    const both = next?.isHeld === true && intruder !== undefined
    await intruder?.release()
    await next?.release()
    return both
      ? { ok: false, saw: 'B and C hold it at once' }
      : { ok: true, saw: 'B holds it, and nobody else' }
  },
}

export const longWork: RedisScene = {
  name: 'long-work',
  title: 'The lease ends in mid-work',
  story:
    'A reads a number, works for three times its ttl, and writes the number plus one. B does the same, but quickly.',
  holdfastDoes:
    'The lease is renewed three times per ttl, for as long as the work continues and the process reaches the server.',
  page: 'hazards.md#one-server',
  naive: setNxCompare,
  holdfast: holdfastRedis,
  servers: 1,
  async run(stage) {
    const [a, b] = [await stage.player('A'), await stage.player('B')]
    let points = 0
    // Long enough to be renewed on a busy machine.
    const held = await first(a, 2_000)
    const slowly = async () => {
      const seen = points
      await elapsed(6_000)
      points = seen + 1
      await held.release()
    }
    const quickly = async () => {
      const next = await b.lock.take(order, 1_000, sceneTimeout)
      points += 1
      await elapsed(200)
      await next?.release()
    }
    await Promise.all([slowly(), quickly()])
    return { ok: points === 2, saw: `2 were added, the number grew by ${points}` }
  },
}

export const longPause: RedisScene = {
  name: 'long-pause',
  title: 'A long pause',
  story:
    'A checks that it holds the lock, is paused (SIGSTOP) for longer than its ttl, resumes and writes. B has written meanwhile.',
  holdfastDoes:
    'No lock can prevent the pause. Each grant comes with a greater token, and `holdfast/guard` lets the resource refuse a token older than the newest it has seen.',
  page: 'guard.md',
  naive: setNxCompare,
  holdfast: holdfastRedis,
  servers: 1,
  async run(stage) {
    const { history, server, way } = stage
    const b = await stage.player('B')
    const a = stage.child('A', 'pause', 1_000, [server.port])
    await a.standsStill()
    const goesOn = history.fault('stopped', a.pid)
    const next = await until(() => b.lock.take(order, 30_000, sceneTimeout), { within: sceneTimeout })
    await way.write(b.client, 'newer', next)
    goesOn()
    const late = await a.goOn()
    await elapsed(200)
    const kept = (await b.client.get(resource)) === 'newer'
    await next.release()
    return {
      ok: kept,
      saw: kept ? `the late write was ${late}` : 'the late write has replaced the newer one',
    }
  },
}

export const clockJump: RedisScene = {
  name: 'clock-jump',
  title: 'The clock jumps',
  story:
    'The wall clock of the server goes forward by a minute while A holds the lock for six seconds. B takes it and writes; then A writes.',
  holdfastDoes:
    'The lock expires early on the server, so both hold it for a moment; nothing here prevents that. A is notified at its next renewal, and its older token is refused.',
  page: 'drivers/redis.md#weak-points',
  naive: setNxCompare,
  holdfast: holdfastRedis,
  servers: 1,
  options: { preload: ['clock'] },
  async run(stage) {
    const { history, server, way } = stage
    const [a, b] = [await stage.player('A'), await stage.player('B')]
    const held = await first(a, 6_000)
    history.fault('clock + 60 s')
    server.clockJump(60_000)
    const next = await until(() => b.lock.take(order, 30_000, sceneTimeout), { within: sceneTimeout })
    await way.write(b.client, 'newer', next)
    const late = await way.write(a.client, 'older', held)
    // A renewal is due every two seconds.
    await until(() => !held.isHeld, { within: 3_000 }).catch(() => undefined)
    const told = held.isHeld ? 'A was never notified' : 'A was notified at its next renewal'
    const kept = (await b.client.get(resource)) === 'newer'
    await held.release()
    await next.release()
    const wrote = kept ? `was ${late}` : 'has replaced the newer one'
    return { ok: kept && told !== 'A was never notified', saw: `the write of A ${wrote}; ${told}` }
  },
}

export const doubleSubmit: RedisScene = {
  name: 'double-submit',
  title: 'A form is sent twice',
  story:
    'Two servers get the same order at once: take 20 of 100 points. Both ask for the lock of that order.',
  holdfastDoes:
    'A lock only makes the two run one after the other. `locks.once` runs one, and gives its result to both.',
  page: 'primitives.md#once-for-everybody',
  naive: setNxCompare,
  holdfast: holdfastRedis,
  servers: 1,
  async run(stage) {
    const [a, b] = [await stage.player('A'), await stage.player('B')]
    let points = 100
    const redeem = async () => {
      await elapsed(300)
      points -= 20
      return points
    }
    const answers = await Promise.all([a, b].map(({ lock }) => lock.once(order, redeem)))
    return {
      ok: points === 80,
      saw: `${points} of 100 points are left; the answers were ${answers.sort().join(' and ')}`,
    }
  },
}
