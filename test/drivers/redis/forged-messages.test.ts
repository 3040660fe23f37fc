// Someone with an account that can read everything and publish, and write nothing, sends what the server would send: aimed at attempts
// that live, read from the data. Nothing comes of it, and the genuine message takes effect.
import assert from 'node:assert/strict'
import { after, type TestContext, test } from 'node:test'
import { Redis } from 'ioredis'
import { LeaseLostError } from '../../../src/index.js'
import { leakCheck } from '../../support/leaks.js'
import { startRedis } from '../../support/servers/redis.js'
import { until } from '../../support/until.js'
import { commands, type Peer, pause, peer, reachable, withoutLooking } from './support/peer.js'

const server = await startRedis()
after(() => server.stop())
await server.cli('ACL', 'SETUSER', 'spy', 'on', 'nopass', '%R~*', '&*', '+@read', '+@pubsub', '+@connection')

/** Longer than any message of one wait may take here; no look by itself falls into it. */
const flood = 1_000
/** One look at once, one more for what came during it, and one in 25 ms; twice that for a machine that is busy. */
const mostLooks = 2 * (2 + flood / 25)

interface Party {
  readonly attempt: string
  readonly channel: string
  readonly waits: boolean
}

interface Spy {
  /** To the channel of `process`, as often as it can for that long. */
  send(channel: string, texts: readonly string[], ms?: number): Promise<number>
  /** Attempts and channels of those who hold or wait for `name`. */
  read(name: string): Promise<Party[]>
  readonly seen: { channel: string; text: string }[]
}

async function spyOn(t: TestContext): Promise<Spy> {
  const open = () =>
    new Redis(server.port, { username: 'spy', password: 'x', protocol: 2, enableReadyCheck: false })
  const [client, listener] = [open(), open()]
  t.after(() => {
    client.disconnect()
    listener.disconnect()
  })
  await assert.rejects(client.set('hf:{x}', '1'), /NOPERM/)
  const seen: { channel: string; text: string }[] = []
  listener.on('pmessage', (_pattern, channel, text) => seen.push({ channel, text }))
  await listener.psubscribe('hf:c:*')
  return {
    seen,
    async send(channel, texts, ms = 0) {
      const end = performance.now() + ms
      // On a busy machine a round trip takes its time: many at once.
      const all = ms === 0 ? texts : Array.from({ length: 50 }, () => texts).flat()
      let sent = 0
      do {
        await Promise.all(all.map((text) => client.publish(channel, text)))
        sent += all.length
      } while (performance.now() < end)
      return sent
    },
    async read(name) {
      const fields = Object.entries(await client.hgetall(`hf:{${name}}`))
      return fields.flatMap(([field, text]): Party[] => {
        const [channel = ''] = /hf:c:\S+/.exec(text) ?? []
        if (field.startsWith('w:')) return [{ attempt: field.slice(2), channel, waits: true }]
        const [, owner] = /^x . \d+ \d+ \d+ \d+ (\S+)/.exec(field === 's' ? text : '') ?? []
        return owner === undefined ? [] : [{ attempt: owner, channel, waits: false }]
      })
    },
  }
}

/** What the server would say about an attempt, and what an older version of it would, with the best lease there can be. */
function grantsOf(attempt: string, name: string): string[] {
  const old = `${Number.MAX_SAFE_INTEGER} 0 1 3600000000000 0 hf:{${name}}`
  return [`g ${attempt}`, `g ${attempt} ${old}`, `n ${attempt} 0`, `n ${attempt} -1`, `n ${attempt} 1`]
}

/** Two processes that have met: each has its channel, and no timer of theirs rings during the test. */
async function pair(t: TestContext, name: string): Promise<readonly [Peer, Peer]> {
  const quiet = { env: { clock: withoutLooking() } }
  const both = [peer(t, server.port, quiet), peer(t, server.port, quiet)] as const
  for (const [one, other] of [both, [both[1], both[0]]] as const) {
    const lease = await one.locks.mutex(`${name} before`).acquire()
    const waits = other.locks.mutex(`${name} before`).acquire()
    await reachable(server, `${name} before`, 1)
    await lease.release()
    await (await waits).release()
  }
  return both
}

test('a flood of forged grants to a waiter makes no holder, and the genuine one takes effect', async (t) => {
  const spy = await spyOn(t)
  const [a, b] = await pair(t, 'grants')
  const lease = await a.locks.mutex('grants').acquire({ ttl: 600_000 })
  let entered = false
  const asked = b.locks.mutex('grants').acquire()
  void asked.then(() => {
    entered = true
  })
  await reachable(server, 'grants', 1)
  const [waiter] = (await spy.read('grants')).filter(({ waits }) => waits)
  assert.ok(waiter)
  await commands(a.client)
  const sent = await spy.send(waiter.channel, grantsOf(waiter.attempt, 'grants'), flood)
  const { evalsha = 0 } = await commands(a.client)
  assert.ok(sent > 2 * mostLooks, `only ${sent} messages`)
  assert.ok(evalsha > 0 && evalsha <= mostLooks, `${evalsha} commands for ${sent} messages`)
  assert.equal(entered, false, 'a second holder')
  assert.ok(lease.isHeld)
  const still = spy.send(waiter.channel, grantsOf(waiter.attempt, 'grants'), flood)
  await lease.release()
  const next = await asked
  assert.ok(next.token > lease.token && next.token < Number.MAX_SAFE_INTEGER - 10)
  assert.ok(next.remaining() >= 27_000 && next.remaining() <= 30_000)
  await still
  assert.equal((await b.locks.inspect('grants')).holders[0]?.token, next.token)
  assert.equal(await next.release(), 'released')
})

test('a forged grant of another process’s attempt does not make anybody end it', async (t) => {
  const spy = await spyOn(t)
  const [a, b] = await pair(t, 'of another')
  const lease = await a.locks.mutex('of another').acquire({ ttl: 600_000 })
  const asked = b.locks.mutex('of another').acquire()
  await reachable(server, 'of another', 1)
  const all = await spy.read('of another')
  const [holder, waiter] = [all.find(({ waits }) => !waits), all.find(({ waits }) => waits)]
  assert.ok(holder && waiter)
  await spy.send(waiter.channel, grantsOf(holder.attempt, 'of another'))
  await spy.send(holder.channel, grantsOf(waiter.attempt, 'of another'))
  // Whatever came of it has been carried out before what b asks now.
  await pause(50)
  const { holders, waiters } = await b.locks.inspect('of another')
  assert.deepEqual([holders[0]?.attempt, waiters[0]?.attempt], [holder.attempt, waiter.attempt])
  assert.ok(lease.isHeld)
  assert.equal(await lease.release(), 'released')
  assert.equal(await (await asked).release(), 'released')
})

test('forged revocations lose no lease, and a genuine one among them is reported at once, as revoked', async (t) => {
  const spy = await spyOn(t)
  const [a, b] = await pair(t, 'revoked')
  const lease = await a.locks.mutex('revoked').acquire({ ttl: 600_000 })
  const told: string[] = []
  const lost = new Promise<unknown>((resolve) => {
    lease.signal.addEventListener('abort', () => resolve(lease.signal.reason))
  })
  a.locks.on('lost', ({ why }) => told.push(why))
  const [holder] = await spy.read('revoked')
  assert.ok(holder)
  await commands(b.client)
  const forged = [`x ${holder.attempt}`, `c ${holder.attempt}`, `x ${holder.attempt} 1`]
  const sent = await spy.send(holder.channel, forged, flood)
  const { evalsha = 0 } = await commands(b.client)
  assert.ok(sent > 2 * mostLooks, `only ${sent} messages`)
  assert.ok(evalsha > 0 && evalsha <= mostLooks, `${evalsha} commands for ${sent} messages`)
  assert.deepEqual(told, [])
  assert.ok(lease.remaining() > 590_000)
  const still = spy.send(holder.channel, forged, flood)
  assert.equal(await b.locks.forceRelease('revoked'), 1)
  // No renewal is due for minutes.
  const reason = await lost
  assert.ok(reason instanceof LeaseLostError)
  assert.deepEqual(told, ['revoked'])
  await still
  assert.equal(lease.state, 'lost')
})

test('forged revocations do not keep a waiter from its turn', async (t) => {
  const spy = await spyOn(t)
  const [a, b] = await pair(t, 'kept')
  const lease = await a.locks.mutex('kept').acquire()
  const asked = b.locks.mutex('kept').acquire()
  await reachable(server, 'kept', 1)
  const [waiter] = (await spy.read('kept')).filter(({ waits }) => waits)
  assert.ok(waiter)
  const forged = spy.send(waiter.channel, [`x ${waiter.attempt}`], flood)
  await lease.release()
  const next = await asked
  await forged
  assert.ok(next.isHeld)
  assert.equal(await next.release(), 'released')
})

test('replayed genuine messages, and a megabyte of garbage, have no effect', async (t) => {
  const spy = await spyOn(t)
  const [a, b] = await pair(t, 'again')
  const first = await a.locks.mutex('again').acquire({ ttl: 600_000 })
  const taken = b.locks.mutex('again').acquire()
  await reachable(server, 'again', 1)
  await first.release()
  const second = await taken
  const others = a.locks.mutex('again').acquire()
  await reachable(server, 'again', 1)
  assert.ok(spy.seen.some(({ text }) => text.startsWith('g ')))
  const long = 'g'.repeat(1_000_000)
  const garbage = [
    '',
    ' ',
    'g',
    'g ',
    'n ',
    'x',
    'v ',
    'v',
    '\0',
    '{}',
    long,
    `g ${long}`,
    `v ${long}`,
    `n ${long}`,
  ]
  for (const channel of new Set(spy.seen.map(({ channel }) => channel))) {
    await spy.send(channel, [...spy.seen.map(({ text }) => text), ...garbage])
  }
  assert.equal(await Promise.race([others, pause(100)]), undefined, 'a second holder')
  assert.ok(second.isHeld)
  assert.equal(await second.release(), 'released')
  assert.equal(await (await others).release(), 'released')
})

test('forged changes of a cell open no latch, and the genuine one takes effect', async (t) => {
  const spy = await spyOn(t)
  const [a, b] = await pair(t, 'cell')
  const latch = a.locks.latch('cell')
  await latch.setCount(1)
  let open = false
  const waits = b.locks.latch('cell').wait()
  void waits.then(() => {
    open = true
  })
  const [key] = await until(async () => {
    const all = (await server.cli('KEYS', 'hf:*:w')) as string[]
    return all.length > 0 && all
  })
  const [channel] = (await server.cli('ZRANGE', key ?? '', '0', '-1')) as string[]
  await commands(a.client)
  const forged = [`v ${key?.slice(0, -2)}`]
  const sent = await spy.send(channel ?? '', forged, flood)
  const { evalsha = 0 } = await commands(a.client)
  assert.ok(sent > 2 * mostLooks, `only ${sent} messages`)
  assert.ok(evalsha > 0 && evalsha <= mostLooks, `${evalsha} commands for ${sent} messages`)
  assert.equal(open, false)
  const still = spy.send(channel ?? '', forged, flood)
  await latch.countDown()
  assert.equal(await waits, true)
  await still
})

after(leakCheck)
