// Someone with an account that can read everything and publish, and write nothing, sends what the servers would send: aimed at attempts
// that live, read from the data. Nothing comes of it, and the genuine message takes effect.
import assert from 'node:assert/strict'
import { after, type TestContext, test } from 'node:test'
import { Redis } from 'ioredis'
import { systemEnv } from '../../../src/core/engine.js'
import { leakCheck } from '../../support/leaks.js'
import { startMany } from '../../support/servers/redis.js'
import type { RedisServer } from '../../support/servers/redis-node.js'
import { until } from '../../support/until.js'
import { commands, pause } from '../redis/support/peer.js'
import { claim, waiting } from '../support/asking.js'
import { slowClock } from '../support/slow-clock.js'
import { redlockOn } from './support/clients.js'
import { driverOf, locksOf, meet, type Scene, votesAt } from './support/scene.js'

const three = await startMany(3)
after(() => three.stop())
const { servers } = three
const scene: Scene = { servers, ports: servers.map(({ port }) => port), prefix: 'hf:' }
for (const server of servers)
  await server.cli(
    'ACL',
    'SETUSER',
    'spy',
    'on',
    'nopass',
    '%R~*',
    '&*',
    '+@read',
    '+@pubsub',
    '+@connection',
  )

/** Messages of a flood, of each server. */
const forged = 200

interface Waiter {
  readonly attempt: string
  readonly channel: string
}

async function spyOn(t: TestContext) {
  const open = ({ port }: RedisServer) =>
    new Redis(port, { username: 'spy', password: 'x', protocol: 2, enableReadyCheck: false })
  const clients = servers.map(open)
  const subscribers = servers.map(open)
  t.after(() => {
    for (const client of [...clients, ...subscribers]) client.disconnect()
  })
  const [first] = clients
  assert.ok(first)
  await assert.rejects(first.set('hf:{x}', '1'), /NOPERM/)
  const seen: { readonly channel: string; readonly text: string }[] = []
  for (const subscriber of subscribers) {
    subscriber.on('pmessage', (_pattern, channel, text) => seen.push({ channel, text }))
    await subscriber.psubscribe('hf:*')
  }
  return {
    seen,
    /** From every server, so often. One after the other: a burst would leave this process no time to react to each. */
    async send(channel: string, texts: readonly string[], times = 1): Promise<void> {
      for (let i = 0; i < times; i++)
        for (const text of texts) await Promise.all(clients.map((client) => client.publish(channel, text)))
    },
    /** Who waits for `name` at a server, once every server has it with its channel. */
    async waiter(name: string): Promise<Waiter> {
      const at = async (client: Redis): Promise<Waiter | undefined> => {
        const text = (await client.get(`hf:redlock{${name}}`)) ?? ''
        const [, attempt = '', channel = '-'] = /\n[wq] (\S+) \w \d+ \d+ (\S+)/.exec(text) ?? []
        return channel.startsWith('-') ? undefined : { attempt, channel }
      }
      return until(async () => {
        const all = await Promise.all(clients.map(at))
        return all.every((one) => one !== undefined) && all[0]
      })
    },
  }
}

test('a flood of forged wake-ups to a waiter makes no holder and causes no storm, and the genuine one takes effect', async (t) => {
  const spy = await spyOn(t)
  const clock = slowClock()
  const [a, b] = [
    driverOf(t, scene),
    redlockOn('ioredis', scene.ports, { prefix: scene.prefix })({ ...systemEnv(), clock }),
  ]
  t.after(() => b.close())
  await meet(scene, a, b)
  const ttl = 30_000
  const grant = await a.acquire(claim('woken', { ttl }), waiting())
  assert.ok(grant)
  let entered = false
  const asked = b.acquire(claim('woken', { ttl }), waiting())
  void asked.then(() => {
    entered = true
  })
  const { attempt, channel } = await spy.waiter('woken')
  const counter = new Redis(servers[0]?.port ?? 0)
  t.after(() => counter.disconnect())
  await commands(counter)
  const began = clock.now()
  await spy.send(channel, [attempt, `g ${attempt}`], forged)
  const { evalsha = 0 } = await commands(counter)
  // Of each server one message at once, and one in 25 ms; each is a vote, and what releases it. One round may be under way.
  const most = 2 * (1 + servers.length * (1 + Math.ceil((clock.now() - began) / 25)))
  assert.ok(evalsha > 0 && evalsha <= most, `${evalsha} commands, at most ${most}`)
  assert.equal(entered, false, 'a second holder')
  const still = spy.send(channel, [attempt], forged)
  assert.equal(await grant.release(), 'released')
  const next = await asked
  assert.ok(next && next.token > grant.token)
  assert.ok(next.validUntil - clock.now() <= ttl)
  await still
  for (const server of servers) assert.deepEqual(await votesAt(server, 'woken', scene.prefix), [attempt])
  assert.equal(await next.release(), 'released')
})

test('a wake-up with the attempt of a holder, or of another process, changes nothing', async (t) => {
  const spy = await spyOn(t)
  const [a, b] = [driverOf(t, scene), driverOf(t, scene)]
  await meet(scene, a, b)
  const held = claim('other', { ttl: 30_000 })
  const grant = await a.acquire(held, waiting())
  assert.ok(grant)
  const wait = waiting()
  const asked = b.acquire(claim('other', { ttl: 30_000 }), wait)
  const { attempt, channel } = await spy.waiter('other')
  const channels = new Set([channel, ...spy.seen.map((one) => one.channel)])
  for (const to of channels) await spy.send(to, [held.attempt, attempt, held.attempt])
  await pause(50)
  for (const server of servers) assert.deepEqual(await votesAt(server, 'other', scene.prefix), [held.attempt])
  assert.equal(await grant.release(), 'released')
  assert.equal(await (await asked)?.release(), 'released')
})

test('replayed genuine messages, and a megabyte of garbage, have no effect', async (t) => {
  const spy = await spyOn(t)
  const [a, b] = [locksOf(t, scene), locksOf(t, scene)]
  await meet(scene, driverOf(t, scene))
  const first = await a.mutex('again').acquire({ ttl: 30_000 })
  const taken = b.mutex('again').acquire({ ttl: 30_000 })
  const before = await spy.waiter('again')
  assert.equal(await first.release(), 'released')
  const second = await taken
  const others = a.mutex('again').acquire({ ttl: 30_000 })
  const waiter = await spy.waiter('again')
  await until(() => spy.seen.some(({ text }) => text === before.attempt))
  const long = 'g'.repeat(1_000_000)
  const garbage = ['', ' ', '\0', '{}', '__proto__', 'constructor', long, `${waiter.attempt}${long}`]
  for (const to of [before.channel, waiter.channel])
    await spy.send(to, [...spy.seen.map(({ text }) => text), ...garbage])
  assert.equal(await Promise.race([others, pause(100)]), undefined, 'a second holder')
  assert.ok(second.isHeld)
  assert.equal(await second.release(), 'released')
  assert.equal(await (await others).release(), 'released')
})

after(leakCheck)
