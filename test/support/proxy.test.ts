// What the proxy does to bytes, as a raw socket sees it. How connections end: proxy-ends.test.ts.
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { leakCheck } from './leaks.js'
import { startProxy } from './proxy.js'
import { pair } from './proxy-pair.js'
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

describe('the proxy', { timeout: 180_000 }, () => {
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

  it('drops replies: the server executes the request, the client never learns of it', async () => {
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

  it('drops requests: the server never receives them, another connection works', async () => {
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
