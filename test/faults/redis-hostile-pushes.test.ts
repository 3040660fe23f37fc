// What a hostile peer may send on the connection that notifies a process: forged, replayed and garbled messages, with the clients
// that people run. Nothing enters, nothing is lost, nothing ends the process, and the true message is heard.
// Second tier because forged messages are shown with the newest clients in test/drivers/redis/forged-messages.test.ts.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { createLocks } from '../../src/create-locks.js'
import { redis } from '../../src/drivers/redis/index.js'
import { peer, reachable, withoutLooking } from '../drivers/redis/support/peer.js'
import { versionNamed } from '../drivers/redis/support/versions.js'
import { leakCheck } from '../support/leaks.js'
import { startRewriting } from '../support/rewriting-proxy.js'
import { startRedis } from '../support/servers/redis.js'
import { until } from '../support/until.js'

const server = await startRedis()
after(() => server.stop())

const unhandled: unknown[] = []
const note = (reason: unknown) => void unhandled.push(reason)
process.on('unhandledRejection', note)
after(() => process.off('unhandledRejection', note))

const bulk = (text: string) => `$${Buffer.byteLength(text)}\r\n${text}\r\n`
const message = (channel: string, text: string) => `*3\r\n${bulk('message')}${bulk(channel)}${bulk(text)}`

/** Texts for one attempt: true ones at the wrong time, and what no server of ours sends. */
function texts(attempt: string): string[] {
  const forged = ['g', 'c', 'x'].map((letter) => `${letter} ${attempt}`)
  const times = ['0', '-1', 'NaN', '1e400', '', '9'.repeat(400)].map((left) => `n ${attempt} ${left}`)
  const broken = [
    '',
    'g',
    'g ',
    'n',
    'v ',
    '\0',
    '\ud83d\udd12',
    'g \r\n',
    `g ${'x'.repeat(1e6)}`,
    '[object Object]',
    '__proto__',
    'g __proto__',
  ]
  return [...forged, ...times, ...broken]
}

/**
 * Pushes that are no text on the channel. No nil: node-redis 5 throws at that and then hears nothing more, so that its waiters poll; nobody
 * can publish it.
 */
function wires(channel: string, attempt: string): string[] {
  const head = `*3\r\n${bulk('message')}${bulk(channel)}`
  return [
    `${head}:7\r\n`,
    `${head}*2\r\n${bulk('g')}${bulk(attempt)}`,
    message('another', `g ${attempt}`),
    `*4\r\n${bulk('pmessage')}${bulk('hf:c:*')}${bulk(channel)}${bulk(`g ${attempt}`)}`,
  ]
}

for (const name of ['ioredis 5.11.1', 'ioredis 6.0.0', 'redis 5.0.0', 'redis 5.12.1']) {
  test(`a waiter whose channel carries forged, replayed and garbled messages enters when it is granted, not before (${name})`, async (t) => {
    const between = await startRewriting(server.port)
    const direct = peer(t, server.port)
    const lease = await direct.locks.mutex(name).acquire({ ttl: 60_000 })
    const version = versionNamed(name)
    const plain = version.library === 'ioredis' ? { protocol: 2 } : { RESP: 2 }
    const { client, start, close } = await version.open({ is: 'single', port: between.port }, plain)
    await start()
    // Its timers do not ring: it continues only because it is told to.
    const locks = createLocks((env) =>
      redis({ client, maxTtl: 60_000, commandTimeout: 20_000 })({ ...env, clock: withoutLooking() }),
    )
    t.after(async () => {
      await locks.close()
      close()
    })
    t.after(() => between.stop())
    const held = await locks.mutex(`${name} held`).acquire({ ttl: 60_000 })
    let entered = false
    const waiting = locks.mutex(name).acquire({ wait: 120_000 })
    void waiting.then(() => {
      entered = true
    })
    await reachable(server, name, 1)
    const fields = (await server.cli('HGETALL', `hf:{${name}}`)) as string[]
    const record = fields.findIndex((field) => field.startsWith('w:'))
    const attempt = fields[record]?.slice(2) ?? assert.fail()
    const channel = /hf:c:\S+/.exec(fields[record + 1] ?? '')?.[0] ?? assert.fail()
    const owner = String(await server.cli('HGET', `hf:{${name} held}`, 's')).split(' ')[6] ?? assert.fail()

    for (const text of [...texts(attempt), ...texts(owner)])
      assert.ok(between.push(message(channel, text)) > 0)
    for (const wire of wires(channel, attempt)) between.push(wire)
    // It is asked because of them, and the server says no.
    const asked = () =>
      server
        .cli('INFO', 'commandstats')
        .then((stats) => /cmdstat_evalsha:calls=(\d+)/.exec(String(stats))?.[1])
    const before = await asked()
    between.push(message(channel, `g ${attempt}`))
    await until(async () => (await asked()) !== before)
    assert.equal(entered, false)
    assert.ok(held.isHeld)
    assert.ok((await held.extend()) > 0)
    assert.ok(lease.isHeld)

    assert.equal(await lease.release(), 'released')
    const next = await waiting
    assert.ok(next.token > lease.token)
    assert.equal(await next.release(), 'released')
    assert.equal(await held.release(), 'released')
    assert.deepEqual(unhandled, [])
  })
}

after(leakCheck)
