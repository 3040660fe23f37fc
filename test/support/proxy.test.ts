// Every fault of the proxy, as a raw socket sees it, in front of a real Redis or of a socket server of our own.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import { after, before, describe, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { leakCheck } from './leaks.js'
import { startProxy, type TcpProxy } from './proxy.js'
import { connectResp } from './resp.js'
import { type RedisServer, startRedis } from './servers/redis.js'
import { until } from './until.js'

let redis: RedisServer
before(async () => {
  redis = await startRedis()
})
after(() => redis.stop())

const silent = (promise: Promise<unknown>): Promise<boolean> =>
  Promise.race([promise.then(() => false), sleep(100, true)])

interface Side {
  readonly socket: Socket
  /** What arrived, and how it ended. */
  readonly seen: { text: string; end: 'open' | 'FIN' | 'RST' }
}

function watch(socket: Socket): Side {
  const side: Side = { socket, seen: { text: '', end: 'open' } }
  socket.on('data', (chunk) => {
    side.seen.text += chunk
  })
  socket.on('end', () => {
    side.seen.end = 'FIN'
  })
  socket.on('error', (error: NodeJS.ErrnoException) => {
    assert.equal(error.code, 'ECONNRESET')
    side.seen.end = 'RST'
  })
  return side
}

interface Pair extends AsyncDisposable {
  readonly proxy: TcpProxy
  readonly client: Side
  readonly server: Side
}

/** A client and a server of our own with the proxy between them, both ends in sight. */
async function pair(): Promise<Pair> {
  const listener = createServer({ allowHalfOpen: true }).listen(0, '127.0.0.1')
  await once(listener, 'listening')
  const proxy = await startProxy({ port: (listener.address() as { port: number }).port })
  const socket = connect({ port: proxy.port, host: proxy.host, allowHalfOpen: true })
  const [[accepted]] = await Promise.all([once(listener, 'connection'), once(socket, 'connect')])
  const client = watch(socket)
  const server = watch(accepted as Socket)
  return {
    proxy,
    client,
    server,
    [Symbol.asyncDispose]: async () => {
      for (const side of [client, server]) side.socket.destroy()
      listener.close()
      await proxy.stop()
    },
  }
}

describe('the proxy', { timeout: 30_000 }, () => {
  it('carries both ways, also what is larger than any buffer, and counts', async () => {
    await using proxy = await startProxy({ port: redis.port })
    await using client = await connectResp(proxy.port)
    const large = 'x'.repeat(5_000_000)
    assert.equal(await client.send('SET', 'large', large), 'OK')
    assert.equal(await client.send('GET', 'large'), large)
    assert.equal(proxy.accepted, 1)
    const [link] = proxy.links
    assert.ok(link && link.bytesUp > 5_000_000 && link.bytesDown > 5_000_000)
    assert.equal(proxy.up.bytes, link.bytesUp)
    assert.equal(proxy.down.bytes, link.bytesDown)
  })

  it('drops replies: the server did it, the client never hears of it', async () => {
    await using proxy = await startProxy({ port: redis.port })
    await using client = await connectResp(proxy.port)
    proxy.down.drop()
    const answer = client.send('SET', 'dropped-down', 1)
    answer.catch(() => {})
    await until(async () => (await redis.cli('GET', 'dropped-down')) === '1')
    assert.equal(await silent(answer), true)
    proxy.heal()
    await assert.rejects(answer, { code: 'ECONNRESET' }) // a stream with a hole in it is never delivered
  })

  it('drops requests: the server never hears of it, another connection works', async () => {
    await using proxy = await startProxy({ port: redis.port })
    await using client = await connectResp(proxy.port)
    proxy.up.drop()
    const answer = client.send('SET', 'dropped-up', 1)
    answer.catch(() => {})
    assert.equal(await silent(answer), true)
    assert.equal(await redis.cli('GET', 'dropped-up'), null)
    proxy.up.pass()
    await using other = await connectResp(proxy.port)
    assert.equal(await other.send('PING'), 'PONG')
  })

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

  it('delays one direction and keeps the order', async () => {
    await using proxy = await startProxy({ port: redis.port })
    await using client = await connectResp(proxy.port)
    proxy.down.delay(80)
    const started = performance.now()
    const answers = await Promise.all([1, 2, 3].map((n) => client.send('ECHO', n)))
    assert.ok(performance.now() - started >= 79)
    assert.deepEqual(answers, ['1', '2', '3'])
    proxy.down.delay(60_000)
    const late = client.send('INCR', 'delayed')
    await until(async () => (await redis.cli('GET', 'delayed')) === '1')
    await redis.cli('PING') // one more round, and the proxy has the reply
    proxy.down.pass() // what is on its way goes out at once, before what comes later
    assert.deepEqual(await Promise.all([late, client.send('PING')]), [1, 'PONG'])
  })

  it('holds chosen chunks and lets them go one by one', async () => {
    await using proxy = await startProxy({ port: redis.port })
    await using first = await connectResp(proxy.port)
    await using second = await connectResp(proxy.port)
    proxy.up.hold('SET')
    const held = first.send('SET', 'held', 1)
    const [chunk] = await proxy.up.holding()
    assert.match(String(chunk?.bytes), /SET.*held/s)
    assert.equal(chunk?.link.id, 1)
    const behind = first.send('GET', 'held') // is no SET, but TCP does not overtake
    await proxy.up.holding(2)
    assert.equal(await second.send('GET', 'other'), null)
    assert.equal(await silent(held), true)
    proxy.up.letGo(1)
    assert.equal(await held, 'OK')
    assert.equal(proxy.up.held.length, 1)
    assert.equal(await silent(behind), true)
    proxy.up.letGo()
    assert.equal(await behind, '1')
    assert.equal(await first.send('PING'), 'PONG')
  })

  it('can lose what it held', async () => {
    await using proxy = await startProxy({ port: redis.port })
    await using client = await connectResp(proxy.port)
    proxy.up.hold()
    const lost = client.send('SET', 'held-and-lost', 1)
    lost.catch(() => {})
    await proxy.up.holding()
    proxy.up.drop()
    proxy.up.pass()
    await assert.rejects(lost, { code: 'ECONNRESET' })
    assert.equal(await redis.cli('GET', 'held-and-lost'), null)
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

  it('lets a slow receiver slow the sender down', async () => {
    await using both = await pair()
    both.server.socket.pause()
    let sent = 0
    while (sent < 64_000_000 && both.proxy.up.bytes > sent - 16_000_000) {
      both.client.socket.write(Buffer.alloc(1_000_000))
      sent += 1_000_000
      await sleep(1)
    }
    assert.ok(
      both.proxy.up.bytes < 32_000_000,
      `${both.proxy.up.bytes} bytes went into a receiver that reads none`,
    )
  })
})

after(leakCheck)
