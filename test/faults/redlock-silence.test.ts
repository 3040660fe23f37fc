// Silent servers: when the ttl starts to count, what a short wait can still report, and how little is sent to them.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { BackendError } from '../../src/core/errors.js'
import { changeMarker } from '../../src/drivers/redlock/marker.js'
import {
  ballotsAt,
  type Cabled,
  cabled,
  locksOf,
  meet,
  now,
  type Scene,
  votesAt,
} from '../drivers/redlock/support/scene.js'
import { claim, once, waiting } from '../drivers/support/asking.js'
import { leakCheck } from '../support/leaks.js'
import { startMany } from '../support/servers/redis.js'
import { until } from '../support/until.js'

const three = await startMany(3)
after(() => three.stop())
const scene = (prefix: string): Scene => ({
  servers: three.servers,
  ports: three.servers.map(({ port }) => port),
  prefix,
})

test('H30: the ttl counts from before the votes were requested, however late they arrive', async (t) => {
  const here = scene('late:')
  const [a] = (await cabled(t, here, 1)) as [Cabled]
  await meet(here, a.driver)
  for (const n of [0, 1, 2]) a.cable(n).down.delay(150)
  const [ttl, before] = [20_000, now()]
  const grant = await a.driver.acquire(claim('h30', { ttl }), waiting())
  const answered = now()
  assert.ok(grant && answered - before >= 150)
  // Asked at least that long before the answer, however slow this machine is.
  assert.ok(grant.validUntil <= answered - 149 + ttl * 0.99)
  let outlived = 0
  for (const server of here.servers) {
    const [vote] = await until(async () => {
      const votes = [...(await ballotsAt(server, 'h30', here.prefix)).values()]
      return votes.length > 0 && votes
    })
    assert.ok(vote)
    const asked = now()
    const [seconds, micros] = (await server.cli('TIME')) as string[]
    const left = (vote.due - Number(seconds) * 1e6 - Number(micros)) / 1_000
    if (answered + ttl > asked + left) outlived++
    assert.ok(grant.validUntil < now() + left, 'the vote ends before the lease')
  }
  // The third one may have voted after the grant.
  assert.ok(outlived >= 2, 'counted from the answers it outlives the votes')
  await grant.release()
})

test('H30: the deadline counts from each round, not from the first', async (t) => {
  const here = scene('rounds:')
  const [a, b] = (await cabled(t, here, 2)) as [Cabled, Cabled]
  await meet(here, a.driver, b.driver)
  const ttl = 2_000
  const first = await a.driver.acquire(claim('h30', { ttl }), waiting())
  const second = await b.driver.acquire(claim('h30', { ttl }), waiting())
  assert.ok(first && second && now() >= first.validUntil, 'it waited for the first one to end')
  assert.ok(second.validUntil - first.validUntil > ttl / 2)
  await second.release()
})

test('votes that arrive too late for the ttl are not handed out, and are released', async (t) => {
  const here = scene('expired:')
  const [a] = (await cabled(t, here, 1)) as [Cabled]
  await meet(here, a.driver)
  for (const n of [0, 1, 2]) a.cable(n).down.delay(600)
  await assert.rejects(a.driver.acquire(claim('too late', { ttl: 500 }), once()), { code: 'BACKEND' })
  for (const n of [0, 1, 2]) a.cable(n).down.pass()
  await until(async () =>
    (await Promise.all(here.servers.map((one) => votesAt(one, 'too late', here.prefix)))).every(
      ({ length }) => length === 0,
    ),
  )
})

test('a wait shorter than a round says what each server had answered when it ended', async (t) => {
  const group = await startMany(3)
  t.after(() => group.stop())
  const here = { ...scene('hf:'), servers: group.servers, ports: group.servers.map(({ port }) => port) }
  const locks = locksOf(t, here)
  await locks.mutex('known').run(() => undefined)
  for (const server of group.servers.slice(1)) server.pause()
  // A process that is paused while it waits may miss replies before the end of its wait.
  const says = (ask: () => Promise<unknown>, what: RegExp) =>
    until(async () => {
      const error = await ask().catch((error: unknown) => error)
      assert.ok(error instanceof BackendError, String(error))
      return what.test(error.message)
    })
  await says(
    () => locks.mutex('short').acquire({ wait: 800 }),
    /server 1: answered; server 2: no answer in time; server 3: no answer in time/,
  )
  // A process that has not met them yet.
  await says(
    () => locksOf(t, here).mutex('short').acquire({ wait: 300 }),
    /server 2: has not said yet which server it is/,
  )
  await says(
    () => locksOf(t, here).mutex('short').tryAcquire({ ttl: 1_500 }),
    /fewer than 2 of 3 .*server 3: has not said yet which server it is/,
  )
})

/** The group gets boot ids; when it is read, nothing follows the key. */
const introduces = (bytes: Buffer): boolean =>
  /redlock!group\r\n\$40\r\n[0-9a-f]{40}\r\n/.test(bytes.toString())
/** The marker gets the boot id; a vote is not asked for before that. */
const marks = (bytes: Buffer): boolean =>
  /redlock!marker\r\n\$\d+\r\n[^\r]*\r\n\$40\r\n[0-9a-f]{40}\r\n/.test(bytes.toString())

for (const [step, is] of Object.entries({ introduced: introduces, marked: marks })) {
  test(`a server that falls silent when it is to be ${step} does not keep the others from voting`, async (t) => {
    const here = scene(`met-${step}:`)
    const [a] = (await cabled(t, here, 1)) as [Cabled]
    const cable = a.cable(2)
    cable.up.hold(is)
    const { token } = takenBy(a)
    await cable.up.holding()
    await until(() => token() > 0)
    assert.ok(cable.up.held.length > 0, 'it was silent all the time')
    cable.up.pass()
  })
}

test('evidence that a server can be trusted does not count if it dates from after its data were deleted', async (t) => {
  const here = scene('stale:')
  const [a] = (await cabled(t, here, 1)) as [Cabled]
  const third = here.servers[2] ?? assert.fail()
  const marker = async () => String(await third.cli('GET', `${here.prefix}redlock!marker`))
  // Known there, so that it is carried out as soon as it arrives.
  await third.cli('EVAL', changeMarker.text, 1, 'nothing', 'read', 'becomes')
  a.cable(2).up.hold(marks)
  const { token } = takenBy(a)
  await a.cable(2).up.holding()
  await until(() => token() > 0)
  await third.cli('FLUSHALL')
  a.cable(2).up.pass()
  await until(async () => {
    const grant = await a.driver.acquire(claim('again', { ttl: 10_000 }), once())
    await grant?.release()
    // Somebody has looked, and nobody has vouched for it: it is left out.
    return /^[nq] /.test(await marker())
  })
})

test('a query that a client drops over two broken connections is sent again', async (t) => {
  const here = scene('forgotten:')
  const [a] = (await cabled(t, here, 1)) as [Cabled]
  await meet(here, a.driver)
  const cables = [0, 1, 2].map((n) => a.cable(n))
  for (const cable of cables) {
    cable.down.hold()
    cable.up.hold((bytes) => isOf('info', bytes))
    cable.reset()
  }
  // While it is not through with its greetings, ioredis sends INFO at once, and forgets it when that connection breaks, too.
  await until(() => cables.every(({ links }) => links.some(({ bytesUp }) => bytesUp > 0)))
  const { token } = takenBy(a)
  await Promise.all(cables.map((cable) => cable.up.holding()))
  for (const cable of cables) {
    cable.reset()
    cable.up.pass()
    cable.down.pass()
  }
  await until(() => token() > 0)
})

const isOf = (command: string, bytes: Buffer) =>
  new RegExp(`\\r\\n${command}\\r\\n`, 'i').test(bytes.toString())

/** Asks without an end, and releases at once; the token tells that it was granted. */
function takenBy({ driver }: Cabled): { token: () => number } {
  let token = 0
  const asked = driver.acquire(claim('one'), waiting()).then(async (grant) => {
    token = grant?.token ?? 0
    await grant?.release()
  })
  asked.catch(() => undefined)
  return { token: () => token }
}

for (const library of ['ioredis', 'node-redis'] as const) {
  test(`a waiter that cannot be notified yet is not queued, and is queued as soon as it can be (${library})`, async (t) => {
    const here = scene(`deaf-${library}:`)
    // Nobody asks again by itself while this lasts.
    const [a, b] = (await cabled(t, here, 2, { retryDelay: 60_000 }, library)) as [Cabled, Cabled]
    await meet(here, a.driver, b.driver)
    const first = await a.driver.acquire(claim('line', { ttl: 60_000 }), once())
    const cables = [0, 1, 2].map((n) => b.cable(n))
    for (const { up } of cables) up.hold((bytes) => isOf('subscribe', bytes))
    const wait = waiting()
    const next = b.driver.acquire(claim('line', { ttl: 60_000 }), wait)
    await Promise.all(cables.map(({ up }) => up.holding()))
    await until(() => wait.told.some(({ holder }) => holder?.token === first?.token))
    assert.deepEqual((await a.driver.inspect('line')).waiters, [])
    for (const { up } of cables) up.pass()
    await until(async () => (await a.driver.inspect('line')).waiters.length === 1)
    await first?.release()
    const second = await next
    assert.ok(first && second && second.token > first.token)
    await second.release()
  })
}

test('two concurrent waits for one claim send one request, and both learn of the grant', async (t) => {
  const here = scene('twice:')
  // Nobody asks again by itself while this lasts.
  const [a, b] = (await cabled(t, here, 2, { retryDelay: 60_000 })) as [Cabled, Cabled]
  await meet(here, a.driver, b.driver)
  const first = await a.driver.acquire(claim('twice', { ttl: 60_000 }), once())
  const asked = claim('twice', { ttl: 60_000 })
  const [one, two, three] = [waiting(), waiting(), waiting()]
  const waits = [one, two, three].map((wait) => b.driver.acquire(asked, wait))
  await until(async () => (await a.driver.inspect('twice')).waiters.length === 1)
  three.end()
  assert.equal(await waits[2], undefined)
  await first?.release()
  const tokens: number[] = []
  for (const wait of waits.slice(0, 2)) void wait.then((grant) => tokens.push(grant?.token ?? 0))
  await until(() => tokens.length === 2)
  assert.ok(first && tokens[0] === tokens[1] && (tokens[0] ?? 0) > first.token)
  assert.equal(await (await waits[0])?.release(), 'released')

  // Where the asking client gives up, the other one continues.
  const second = await a.driver.acquire(claim('twice', { ttl: 60_000 }), once())
  const again = claim('twice', { ttl: 60_000 })
  const [gone, stays] = [waiting(), waiting()]
  const [left, next] = [b.driver.acquire(again, gone), b.driver.acquire(again, stays)]
  await until(async () => (await a.driver.inspect('twice')).waiters.length === 1)
  gone.end()
  assert.equal(await left, undefined)
  await until(() => stays.told.length > 0)
  await second?.release()
  assert.equal(await (await next)?.release(), 'released')
})

test('a silent server gets a bounded number of requests, and keeps no vote once it replies', async (t) => {
  const here = scene('silent:')
  const [a] = (await cabled(t, here, 1)) as [Cabled]
  await meet(here, a.driver)
  a.cable(2).up.hold()
  for (let i = 0; i < 1_000; i++) {
    const grant = await a.driver.acquire(claim('silent', { ttl: 60_000 }), waiting())
    assert.ok(grant)
    assert.equal(await grant.release(), 'released')
  }
  const held = Buffer.concat(a.cable(2).up.held.map(({ bytes }) => bytes)).toString()
  const requests = held.match(/\r\nevalsha\r\n/gi)?.length ?? 0
  // 256 requests for votes, and what gives them back.
  assert.ok(requests > 256 && requests <= 2 * 256, `${requests} requests`)
  a.cable(2).up.pass()
  const third = here.servers[2] ?? assert.fail()
  await until(async () => (await votesAt(third, 'silent', here.prefix)).length === 0)
})

after(leakCheck)
