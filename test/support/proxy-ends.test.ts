// How connections end through the proxy, and how they do not begin, as raw sockets see it.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import { after, describe, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { leakCheck, leaks } from './leaks.js'
import { startProxy } from './proxy.js'
import { pair, watch } from './proxy-pair.js'
import { reset } from './proxy-pipe.js'
import { connectResp } from './resp.js'
import { startRedis } from './servers/redis.js'
import { until } from './until.js'

describe('a connection through the proxy', { timeout: 180_000 }, () => {
  it('is a black hole: neither side hears the other, not even that it went away', async () => {
    await using both = await pair()
    const { proxy, client, server } = both
    proxy.blackHole()
    client.socket.write('lost')
    server.socket.write('lost')
    client.socket.resetAndDestroy()
    const late = watch(connect(proxy.port, proxy.host))
    late.socket.write('into the dark')
    await once(late.socket, 'connect')
    await until(() => proxy.accepted === 2)
    await sleep(100)
    assert.deepEqual(server.seen, { text: '', end: 'open' })
    assert.deepEqual(late.seen, { text: '', end: 'open' })
    proxy.heal()
    await until(() => server.seen.end === 'RST' && late.seen.end === 'RST')
    assert.deepEqual([client.seen.text, server.seen.text, late.seen.text], ['', '', ''])
    assert.equal(proxy.links.length, 0)
  })

  it('holds back that a client went away, behind what it said', async () => {
    await using both = await pair()
    const { proxy, client, server } = both
    proxy.up.hold()
    client.socket.end('bye')
    await proxy.up.holding()
    await until(() => client.socket.writableFinished)
    assert.equal(server.seen.end, 'open')
    proxy.up.letGo()
    await until(() => server.seen.end === 'FIN')
    assert.equal(server.seen.text, 'bye')
  })

  it('half-closes: one direction ends, the other lives on', async () => {
    await using both = await pair()
    const { proxy, client, server } = both
    proxy.up.close()
    await until(() => server.seen.end === 'FIN')
    server.socket.write('still there?')
    await until(() => client.seen.text === 'still there?')
    assert.equal(client.seen.end, 'open')
  })

  it('is reset while it is being half-closed, and nothing of it stays', async () => {
    await using both = await pair()
    both.proxy.up.close()
    both.proxy.reset()
    await until(() => both.client.seen.end === 'RST' && both.server.seen.end !== 'open')
    assert.equal(both.proxy.links.length, 0)
  })

  it('is reset before it is connected, with bytes and a FIN to send, and nothing of it stays', async () => {
    await using both = await pair()
    const socket = connect(both.proxy.port, both.proxy.host)
    socket.on('error', () => {})
    socket.write('hello')
    socket.end()
    reset(socket)
    await once(socket, 'close')
    assert.deepEqual(
      leaks().filter((leak) => leak.includes('not closed')),
      [],
    )
  })

  it('passes on how a side ended: FIN as FIN, RST as RST', async () => {
    {
      await using both = await pair()
      both.server.socket.end('last words')
      await until(() => both.client.seen.end === 'FIN')
      assert.equal(both.client.seen.text, 'last words')
    }
    await using both = await pair()
    both.client.socket.resetAndDestroy()
    await until(() => both.server.seen.end === 'RST')
  })

  it('cuts with FIN and resets with RST, on both ends', async () => {
    for (const [fault, end] of [
      ['cut', 'FIN'],
      ['reset', 'RST'],
    ] as const) {
      await using both = await pair()
      both.proxy[fault]()
      await until(() => both.client.seen.end === end && both.server.seen.end === end)
      assert.equal(both.proxy.links.length, 0)
    }
  })

  it('refuses new connections, leaves open ones alone, and accepts again on the same port', async () => {
    await using redis = await startRedis()
    await using proxy = await startProxy({ port: redis.port })
    await using client = await connectResp(proxy.port)
    await client.send('PING')
    proxy.refuse()
    await assert.rejects(connectResp(proxy.port), { code: 'ECONNREFUSED' })
    assert.equal(await client.send('PING'), 'PONG')
    await proxy.accept()
    await using again = await connectResp(proxy.port)
    assert.equal(await again.send('PING'), 'PONG')
  })

  it('resets a client when the server is not there', async () => {
    await using server = await startRedis()
    await using proxy = await startProxy({ port: server.port })
    await server.kill9()
    const client = watch(connect(proxy.port, proxy.host))
    await until(() => client.seen.end === 'RST')
  })
})

after(leakCheck)
