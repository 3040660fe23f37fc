import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type { Claim, Driver, Grant } from '../../../src/core/driver.js'
import { exclusive, permits, shared } from '../../../src/core/mode.js'
import { tokenReserve } from '../../../src/core/token.js'
import { memory } from '../../../src/drivers/memory/index.js'
import { type FakeClock, fakeClock, settle } from '../../support/fake-clock.js'
import { leakCheck } from '../../support/leaks.js'
import { claim, never, once, waiting } from '../support/asking.js'

function store(): { clock: FakeClock; client: (by?: string) => Driver } {
  const clock = fakeClock()
  const factory = memory()
  return {
    clock,
    client: (client = 'test:1') => factory({ clock, id: () => '', random: Math.random, client }),
  }
}

async function take(driver: Driver, name: string, more?: Partial<Claim>): Promise<Grant> {
  const grant = await driver.acquire(claim(name, more), waiting())
  assert.ok(grant, 'not granted')
  return grant
}

/** Has it been answered, and with what? */
function watch<T>(promise: Promise<T>): { answer?: T; done: boolean } {
  const seen: { answer?: T; done: boolean } = { done: false }
  void promise.then((answer) => Object.assign(seen, { answer, done: true }))
  return seen
}

test('two clients of one store compete, two stores do not', async () => {
  const { client } = store()
  await take(client(), 'x')
  assert.equal(await client().acquire(claim('x'), once()), undefined)
  await take(store().client(), 'x')
})

test('a waiter learns who holds and its place, and is granted by the release', async () => {
  const { client } = store()
  const first = await take(client('host:1'), 'x', { note: 'nightly' })
  const wait = waiting()
  const second = watch(client('host:2').acquire(claim('x'), wait))
  await settle()
  assert.equal(wait.told[0]?.position, 1)
  assert.equal(wait.told[0]?.holder?.client, 'host:1')
  assert.equal(wait.told[0]?.holder?.note, 'nightly')
  assert.equal(second.done, false)
  assert.equal(await first.release(), 'released')
  await settle()
  assert.ok((second.answer?.token ?? 0) > first.token)
})

test('a single attempt that finds it taken also names the holder', async () => {
  const { client } = store()
  await take(client('host:1'), 'x')
  const wait = once()
  await client().acquire(claim('x'), wait)
  assert.equal(wait.told[0]?.holder?.client, 'host:1')
})

test('a waiter is granted when the silent holder is overdue, and knows how long that is good for', async () => {
  const { clock, client } = store()
  const silent = await take(client(), 'x', { ttl: 1000 })
  const second = watch(client().acquire(claim('x', { ttl: 500 }), waiting()))
  await clock.advance(999)
  assert.equal(second.done, false)
  await clock.advance(1)
  assert.equal(second.answer?.validUntil, clock.now() + 500 * 0.99 - 2)
  assert.equal(await silent.renew(1000, never), undefined)
  assert.equal(await silent.release(), 'lost')
})

test('a claim that arrives again does not shorten a hold extended since', async () => {
  const { client } = store()
  const driver = client()
  const asked = claim('x', { ttl: 1_000 })
  const grant = await driver.acquire(asked, waiting())
  await grant?.renew(60_000, never)
  assert.equal((await driver.acquire(asked, waiting()))?.token, grant?.token)
  assert.equal((await driver.inspect('x')).holders[0]?.expiresIn, 60_000)
  await grant?.renew(500, never)
  assert.equal((await driver.inspect('x')).holders[0]?.expiresIn, 500)
})

test('renewals keep the waiter waiting', async () => {
  const { clock, client } = store()
  const holder = await take(client(), 'x', { ttl: 1000 })
  const second = watch(client().acquire(claim('x'), waiting()))
  for (let i = 0; i < 10; i++) {
    await clock.advance(900)
    assert.equal(await holder.renew(1000, never), clock.now() + 988)
  }
  assert.equal(second.done, false)
  await holder.release()
  await settle()
  assert.equal(second.done, true)
})

test('a wait that ends leaves no trace: the next waiter moves up', async () => {
  const { client } = store()
  const holder = await take(client(), 'x')
  const wait = waiting()
  const gone = watch(client().acquire(claim('x'), wait))
  const next = watch(client().acquire(claim('x'), waiting()))
  wait.end()
  await settle()
  assert.equal(gone.done, true)
  assert.equal(gone.answer, undefined)
  assert.equal((await client().inspect('x')).waiters.length, 1)
  await holder.release()
  await settle()
  assert.ok(next.answer)
})

test('a wait that has expired before it starts takes nothing', async () => {
  const { client } = store()
  const wait = waiting()
  wait.end()
  assert.equal(await client().acquire(claim('x'), wait), undefined)
  assert.equal((await client().inspect('x')).holders.length, 0)
})

test('an exclusive grant passes on within its reserve, and tokens go on after the last one used', async () => {
  const { client } = store()
  const driver = client()
  const first = await take(driver, 'x')
  assert.equal(first.nextReservedToken?.(), first.token + 1)
  assert.equal(first.nextReservedToken?.(), first.token + 2)
  await first.release()
  const second = await take(driver, 'x')
  assert.ok(second.token > first.token + 2)
  for (let i = 0; i < tokenReserve; i++) assert.ok(second.nextReservedToken?.())
  assert.equal(second.nextReservedToken?.(), undefined)
})

test('shared and permit grants cannot be passed on', async () => {
  const { client } = store()
  assert.equal((await take(client(), 'x', { mode: shared })).nextReservedToken, undefined)
  assert.equal((await take(client(), 'y', { mode: permits(1, 2) })).nextReservedToken, undefined)
})

test('contended says whether somebody waits', async () => {
  const { client } = store()
  const holder = await take(client(), 'x')
  assert.equal(holder.contended?.(), false)
  const wait = waiting()
  const second = client().acquire(claim('x'), wait)
  assert.equal(holder.contended?.(), true)
  wait.end()
  await second
  assert.equal(holder.contended?.(), false)
})

test('a downgrade lets readers in and passes nothing on any more', async () => {
  const { client } = store()
  const writer = await take(client(), 'x')
  const reader = watch(client().acquire(claim('x', { mode: shared }), waiting()))
  await writer.downgrade?.()
  await settle()
  assert.ok((reader.answer?.token ?? 0) > writer.token)
  assert.equal(writer.nextReservedToken?.(), undefined)
  assert.equal(await writer.release(), 'released')
})

test('a forced release is seen at once, and the next one is granted', async () => {
  const { clock, client } = store()
  const holder = await take(client(), 'x')
  const second = watch(client().acquire(claim('x'), waiting()))
  assert.equal(await client().forceRelease?.('x'), 1)
  assert.ok(holder.validUntil <= clock.now())
  await settle()
  assert.ok(second.answer)
  assert.equal(await holder.release(), 'lost')
  assert.equal(await client().forceRelease?.('nobody'), 0)
})

test('another limit for a semaphore in use is refused with both numbers', async () => {
  const { client } = store()
  const grant = await take(client(), 'x', { mode: permits(1, 3) })
  await assert.rejects(client().acquire(claim('x', { mode: permits(1, 4) }), waiting()), {
    name: 'RangeError',
    message: /"x" has 3 permits.*got permits: 4/,
  })
  await grant.release()
  await take(client(), 'x', { mode: permits(1, 4) })
})

test('list shows what is held or waited for and begins with the prefix', async () => {
  const { clock, client } = store()
  const driver = client()
  await take(driver, 'a:1')
  await (await take(driver, 'a:2')).release()
  await take(driver, 'b:1')
  await take(driver, 'a:3', { ttl: 10 })
  await clock.advance(10)
  assert.deepEqual(
    (await driver.list?.('a:'))?.map((standing) => standing.name),
    ['a:1'],
  )
})

test('tokens of a name grow although thousands of idle names are forgotten', async () => {
  const { client } = store()
  const driver = client()
  const last = new Map<string, number>()
  for (let i = 0; i < 6000; i++) {
    const name = `name:${i % 1500}`
    const grant = await take(driver, name)
    assert.ok(grant.token > (last.get(name) ?? 0))
    for (let used = 0; used < 50; used++) last.set(name, grant.nextReservedToken?.() ?? 0)
    await grant.release()
  }
})

test('close ends the waits of this client only, and refuses new ones', async () => {
  const { client } = store()
  const holder = await take(client(), 'x')
  const closing = client()
  const mine = watch(closing.acquire(claim('x'), waiting()))
  const theirs = watch(client().acquire(claim('x'), waiting()))
  await closing.close()
  await closing.close()
  await settle()
  assert.deepEqual(mine, { done: true, answer: undefined })
  await assert.rejects(closing.acquire(claim('x'), waiting()), { code: 'CLOSED' })
  await holder.release()
  await settle()
  assert.ok(theirs.answer)
})

test('no timer is left once nobody waits', async () => {
  const { clock, client } = store()
  const holder = await take(client(), 'x')
  const wait = waiting()
  const second = client().acquire(claim('x'), wait)
  assert.equal(clock.pending, 1)
  wait.end()
  await second
  assert.equal(clock.pending, 0)
  await holder.release()
})

test('a thousand waiters of different clients are served in order, each with a greater token', async () => {
  const { client } = store()
  const holder = await take(client(), 'x')
  const order: number[] = []
  const tokens: number[] = []
  const all = Array.from({ length: 1000 }, async (_, i) => {
    const grant = await client().acquire(claim('x', { mode: exclusive }), waiting())
    order.push(i)
    tokens.push(grant?.token ?? 0)
    await grant?.release()
  })
  await holder.release()
  await Promise.all(all)
  assert.deepEqual(
    order,
    Array.from({ length: 1000 }, (_, i) => i),
  )
  for (const [i, token] of tokens.entries()) assert.ok(token > (tokens[i - 1] ?? holder.token))
})

after(leakCheck)
