// What the page costs a store, counted by a Redis server: with one browser, with thirty, and with none.
import '../support/background.js'
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { createLocks, type Locks } from 'holdfast'
import { redis } from 'holdfast/redis'
import { type LockPage, lockPage } from 'holdfast/ui'
import { Redis } from 'ioredis'
import type { Init, Tick } from '../../src/ui/wire.js'
import { leakCheck } from '../support/leaks.js'
import { type RedisServer, startRedis } from '../support/servers/redis.js'
import { until } from '../support/until.js'
import { type Served, type Stream, serving, stream } from './support.js'

const names = 40
const budget = 100
let server: RedisServer
let client: Redis
let holding: Locks
let watching: Locks
let page: LockPage
let site: Served

before(async () => {
  server = await startRedis()
  client = new Redis(server.url)
  // Leases so long that no renewal is among the commands.
  holding = createLocks(redis({ client, maxTtl: 600_000 }))
  watching = createLocks(redis({ client, maxTtl: 600_000 }))
  for (let i = 0; i < names; i++) await holding.mutex(`name:${i}`).acquire({ ttl: 600_000 })
  page = lockPage({ stores: { main: watching }, interval: 100, budget })
  site = await serving(page.node)
})
after(async () => {
  page.close()
  await site.close()
  await holding.close()
  await watching.close()
  client.disconnect()
  await server.stop()
})

/** Scripts and scans that the server has carried out: what a sample is made of. */
async function commands(): Promise<number> {
  const info = await client.info('commandstats')
  const calls = (name: string) => Number(new RegExp(`cmdstat_${name}:calls=(\\d+)`).exec(info)?.[1] ?? 0)
  return calls('evalsha') + calls('eval') + calls('scan')
}

/** Commands for each sample, and time in ms from the first to the last of them. */
async function cost(streams: readonly Stream[], samples: number): Promise<{ each: number; took: number }> {
  const [first] = streams as [Stream]
  await first.next<Tick>('tick')
  const [begun, before] = [performance.now(), await commands()]
  for (let i = 0; i < samples; i++) await first.next<Tick>('tick')
  return { each: ((await commands()) - before) / samples, took: performance.now() - begun }
}

test('thirty browsers cost the store what one does, and no more commands a second than the budget', async () => {
  const streams: Stream[] = [await stream(`${site.url}/events`)]
  try {
    const alone = await cost(streams, 4)
    while (streams.length < 30) streams.push(await stream(`${site.url}/events`))
    const together = await cost(streams, 4)
    // One script for each name, and the pages of one scan; the count may fall into the middle of a sample.
    for (const { each, took } of [alone, together]) {
      assert.ok(each >= names && each <= names * 1.5, `${each} commands for a sample of ${names} names`)
      assert.ok((each * 4_000) / took <= budget * 1.3, `${each * 4} commands in ${took} ms`)
    }
  } finally {
    for (const one of streams) await one[Symbol.asyncDispose]()
  }
  await until(() => page.viewers === 0)
})

test('nobody looks: the store gets no command, and the history says so afterwards', async () => {
  let { every } = await (async () => {
    await using events = await stream(`${site.url}/events`)
    return (await events.next<Tick>('tick')).health
  })()
  const left = performance.now()
  await until(() => page.viewers === 0)
  // The sample under way when the last browser left is the last one.
  let last = -1
  await until(async () => {
    const now = await commands()
    const still = now === last
    last = now
    return still
  })
  const before = await commands()
  // The slower the last sample was, the later the next one may come, and the longer a pause must be to count as one.
  every = Math.max(every, 10 * (performance.now() - left))
  const away = 2 * every + 3_000
  await new Promise((resolve) => setTimeout(resolve, away))
  assert.equal(await commands(), before)
  await using events = await stream(`${site.url}/events`)
  const { stores } = await events.next<Init>('init')
  assert.equal(stores[0]?.entries.length, names)
  const { gap } = await events.next<Tick>('tick', (tick) => tick.gap !== undefined)
  assert.ok((gap?.to ?? 0) - (gap?.from ?? 0) >= away)
})

after(leakCheck)
