// Someone who can read everything and publish, and write nothing, at every server of a set-up: aimed at an attempt that waits and at one
// that holds. A single server has test/drivers/redis/forged-messages.test.ts, which has more of it.
// Second tier because Sentinels and Clusters are topologies of their own, and what becomes of a message does not depend on them.
import assert from 'node:assert/strict'
import { after, before, describe, type TestContext, test } from 'node:test'
import { Redis } from 'ioredis'
import type { Driver } from '../../src/core/driver.js'
import { systemEnv } from '../../src/core/engine.js'
import { driverOn, open, type Place } from '../drivers/redis/support/clients.js'
import { commands } from '../drivers/redis/support/peer.js'
import { claim, waiting } from '../drivers/support/asking.js'
import { slowClock } from '../drivers/support/slow-clock.js'
import { leakCheck } from '../support/leaks.js'
import { startCluster } from '../support/servers/redis-cluster.js'
import type { RedisServer } from '../support/servers/redis-node.js'
import { startSentinel } from '../support/servers/redis-sentinel.js'
import { until } from '../support/until.js'

interface Setup {
  readonly place: Place
  readonly nodes: readonly RedisServer[]
  /** The server with the locks of that name. */
  home(name: string): Promise<RedisServer>
  stop(): Promise<void>
}

const setups: Readonly<Record<string, () => Promise<Setup>>> = {
  Sentinel: async () => {
    const setup = await startSentinel({ downAfter: 60_000 })
    const { name, addresses: sentinels, nodes } = setup
    const place: Place = { is: 'sentinel', name, sentinels, ports: nodes.map(({ port }) => port) }
    return { place, nodes, home: async () => setup.master(), stop: () => setup.stop() }
  },
  Cluster: async () => {
    const cluster = await startCluster({ replicas: 1 })
    const { nodes } = cluster
    const home = async (name: string) => cluster.findOwner(await cluster.keySlot(`hf:{${name}}`))
    const place: Place = { is: 'cluster', ports: nodes.map(({ port }) => port) }
    return { place, nodes, home, stop: () => cluster.stop() }
  },
}

interface Party {
  readonly attempt: string
  readonly channel: string
}

/** How often each forged message is sent from every server. */
const times = 60

/** Reads who takes part, hears every message, and sends what it likes. */
async function spyOn(t: TestContext, nodes: readonly RedisServer[], home: RedisServer) {
  const clients = nodes.map(
    ({ port }) => new Redis(port, { username: 'spy', password: 'x', protocol: 2, enableReadyCheck: false }),
  )
  const [reader, subscriber] = [1, 2].map(
    () => new Redis(home.port, { username: 'spy', password: 'x', protocol: 2, enableReadyCheck: false }),
  )
  assert.ok(reader && subscriber)
  t.after(() => {
    for (const client of [...clients, reader, subscriber]) client.disconnect()
  })
  await assert.rejects(reader.set('hf:{x}', '1'), /NOPERM/)
  const seen = new Set<string>()
  subscriber.on('pmessage', (_pattern, _channel, text: string) => void seen.add(text))
  await subscriber.psubscribe('hf:c:*')
  return {
    seen,
    /** One after the other: a burst would leave this process no time to react to each. */
    async send({ channel }: Party, texts: readonly string[], often = 1): Promise<void> {
      for (let i = 0; i < often; i++)
        for (const text of texts) await Promise.all(clients.map((client) => client.publish(channel, text)))
    },
    /** Who waits for `name`, once that can be told, and who holds it. */
    parties: (name: string): Promise<{ readonly waiter: Party; readonly holder: Party }> =>
      until(async () => {
        const fields = Object.entries(await reader.hgetall(`hf:{${name}}`))
        const channelIn = (text: string) => / -?(hf:c:\S+)/.exec(` ${text}`)?.[1]
        const [field = '', text = ''] = fields.find(([key]) => key.startsWith('w:')) ?? []
        const [, state = ''] = fields.find(([key]) => key === 's') ?? []
        const attempt = /^x . \d+ \d+ \d+ \d+ (\S+)/.exec(state)?.[1]
        const [channel, ofHolder] = [channelIn(text), channelIn(state)]
        if (text.includes(' -hf:c:') || channel === undefined || !attempt || !ofHolder) return false
        return { waiter: { attempt: field.slice(2), channel }, holder: { attempt, channel: ofHolder } }
      }),
  }
}

for (const [is, start] of Object.entries(setups)) {
  describe(is, () => {
    let setup: Setup
    before(async () => {
      setup = await start()
      const rights = ['%R~*', '&*', '+@read', '+@pubsub', '+@connection']
      for (const node of setup.nodes) await node.cli('ACL', 'SETUSER', 'spy', 'on', 'nopass', ...rights)
    })
    after(() => setup.stop())

    for (const library of ['ioredis', 'node-redis'] as const) {
      test(`forged and repeated messages make no holder, lose no lease and cause no storm, and the genuine one takes effect (${library})`, async (t) => {
        const clock = slowClock()
        const driver = (env = systemEnv()): Driver => {
          const made = driverOn(open(library, setup.place))(env)
          t.after(() => made.close())
          return made
        }
        const [a, b] = [driver({ ...systemEnv(), clock }), driver({ ...systemEnv(), clock })]
        const name = `forged-${library}`
        const home = await setup.home(name)
        const spy = await spyOn(t, setup.nodes, home)
        const counter = new Redis(home.port)
        t.after(() => counter.disconnect())
        // They have met: each has its channel.
        for (const [one, other] of [
          [a, b],
          [b, a],
        ] as const) {
          const grant = await one.acquire(claim(`${name}-met`, { ttl: 30_000 }), waiting())
          const next = other.acquire(claim(`${name}-met`, { ttl: 30_000 }), waiting())
          await until(async () => (await a.inspect(`${name}-met`)).waiters.length === 1)
          await grant?.release()
          await (await next)?.release()
        }
        const grant = await a.acquire(claim(name, { ttl: 30_000 }), waiting())
        assert.ok(grant)
        let entered = false
        const asked = b.acquire(claim(name, { ttl: 30_000 }), waiting())
        void asked.then(() => {
          entered = true
        })
        const { waiter, holder } = await spy.parties(name)
        await commands(counter)
        const began = clock.now()
        const old = `${Number.MAX_SAFE_INTEGER} 0 1 3600000000000 0 hf:{${name}}`
        const toWaiter = [`g ${waiter.attempt}`, `g ${waiter.attempt} ${old}`, `x ${waiter.attempt}`]
        await spy.send(waiter, [...toWaiter, `n ${waiter.attempt} -1`, `g ${holder.attempt}`], times)
        await spy.send(holder, [`x ${holder.attempt}`, `c ${holder.attempt}`, `g ${waiter.attempt}`], times)
        const { evalsha = 0 } = await commands(counter)
        // For each of the two: one look at once, one for what came during it, one in 25 ms. A message also changes when a waiter looks next.
        const most = 4 * (2 + Math.ceil((clock.now() - began) / 25))
        assert.ok(evalsha > 0 && evalsha <= most, `${evalsha} commands, at most ${most}`)
        assert.equal(entered, false, 'a second holder')
        assert.equal(grant.lost?.aborted ?? false, false)
        assert.ok(grant.validUntil > clock.now() + 25_000)
        const still = spy.send(waiter, toWaiter, times)
        assert.equal(await grant.release(), 'released')
        const next = await asked
        await still
        assert.ok(next && next.token > grant.token && next.token < Number.MAX_SAFE_INTEGER - 10)
        assert.ok(next.validUntil <= clock.now() + 30_000)
        assert.ok([...spy.seen].some((text) => text.startsWith('g ')))
        const long = 'g'.repeat(200_000)
        await spy.send(waiter, [...spy.seen, '', 'g', 'x ', 'v', long, `g ${long}`, `v ${long}`])
        const [held] = (await a.inspect(name)).holders
        assert.deepEqual([held?.attempt, held?.token], [waiter.attempt, next.token])
        assert.equal(next.lost?.aborted ?? false, false)
        assert.equal(await next.release(), 'released')
      })
    }
  })
}

after(leakCheck)
