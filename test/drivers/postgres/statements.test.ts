// What locks cost, counted by the server: statements, notifications, connections.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { Client } from 'pg'
import { leakCheck } from '../../support/leaks.js'
import { startPostgres } from '../../support/servers/postgres.js'
import { until } from '../../support/until.js'
import { connections, inLine, peer } from './support/peer.js'

const server = await startPostgres({ settings: { log_statement: 'all' } })
after(() => server.stop())

let marks = 0

/** Where the log stands now, from before to after a mark. What the server was sent earlier is before it: the log reaches this process late. */
async function mark(): Promise<readonly [before: number, after: number]> {
  const text = `mark ${++marks} of the log`
  await server.sql(`select '${text}'`)
  await until(() => server.log().includes(text))
  const before = server.log().indexOf(text)
  return [before, before + text.length]
}

/** Statements the server has got since, by the function they call; `other` for the rest. */
async function counter(): Promise<() => Promise<Record<string, number>>> {
  const [, start] = await mark()
  return async () => {
    const [end] = await mark()
    const found: Record<string, number> = {}
    for (const line of server.log().slice(start, end).split('\n')) {
      if (!/LOG: {2}(execute|statement)/.test(line) || line.endsWith("select '")) continue
      const what = /holdfast_(\w+)_v1\(/.exec(line)?.[1] ?? 'other'
      found[what] = (found[what] ?? 0) + 1
    }
    return found
  }
}

function isRenewed(name: string): boolean {
  const statements = server.log().split(/LOG: {2}/)
  return statements.some((text) => text.includes('holdfast_renew_v1(') && text.includes(name))
}

test('an uncontended acquire and release are two statements', async (t) => {
  const { locks } = peer(t, server.port)
  await locks.mutex('warm').run(() => undefined)
  const counted = await counter()
  for (let i = 0; i < 50; i++) await locks.mutex('alone').run(() => undefined)
  assert.deepEqual(await counted(), { acquire: 50, release: 50 })
})

test('a hand-over is two statements: the release, and the request of the notified waiter', async (t) => {
  const [a, b] = [peer(t, server.port), peer(t, server.port)]
  const name = 'handed over'
  // Both have their channel: the first wait opens it, and asks once more; a moment later each checks what it holds.
  for (const [one, other, kept] of [
    [a, b, 'kept by b'],
    [b, a, 'kept by a'],
  ] as const) {
    const keeping = await other.locks.mutex(kept).acquire()
    const lease = await one.locks.mutex('warm').acquire()
    const next = other.locks.mutex('warm').acquire()
    await inLine(one.locks, 'warm', 1)
    await until(() => isRenewed(kept))
    await lease.release()
    await (await next).release()
    await keeping.release()
  }
  const first = await a.locks.mutex(name).acquire()
  const next = b.locks.mutex(name).acquire()
  await inLine(a.locks, name, 1)
  const counted = await counter()
  await first.release()
  const second = await next
  assert.deepEqual(await counted(), { release: 1, acquire: 1 })
  await second.release()
})

test('nobody is notified unless somebody waits', async (t) => {
  const [a, b] = [peer(t, server.port), peer(t, server.port)]
  const lease = await a.locks.mutex('x').acquire()
  const waiting = b.locks.mutex('x').acquire()
  await until(async () => (await server.sql('select channel from holdfast_waiters')).at(0)?.['channel'])
  const [row] = await server.sql('select channel from holdfast_waiters')
  const sniffer = new Client(server.url)
  const heard: string[] = []
  sniffer.on('notification', ({ payload }) => heard.push(payload ?? ''))
  await sniffer.connect()
  await sniffer.query(`listen "${String(row?.['channel'])}"`)
  await lease.release()
  const second = await waiting
  await until(() => heard.length > 0)
  await second.release()
  for (let i = 0; i < 5; i++) await b.locks.mutex('x').run(() => undefined)
  await sniffer.query('select 1')
  assert.deepEqual(
    heard.map((payload) => payload.slice(0, 2)),
    ['g '],
  )
  await sniffer.end()
})

test('all leases of a process renew in one statement', async (t) => {
  const { locks } = peer(t, server.port, { ttl: 9_000 })
  const renewed = new Set<number>()
  locks.on('renewed', ({ token }) => renewed.add(token))
  const leases = await Promise.all(Array.from({ length: 100 }, (_, i) => locks.mutex(`many ${i}`).acquire()))
  const counted = await counter()
  await until(() => renewed.size === 100, { within: 9_000 })
  // On the common beat, not one for each lock.
  const { renew = 0 } = await counted()
  assert.ok(renew > 0 && renew < 25, `${renew} renewals`)
  await Promise.all(leases.map((lease) => lease.release()))
  const asked = await Promise.all(leases.map((_, i) => locks.mutex(`asked ${i}`).acquire({ ttl: 600_000 })))
  const extending = await counter()
  await Promise.all(asked.map((lease) => lease.extend()))
  assert.deepEqual(await extending(), { renew: 1 })
  await Promise.all(asked.map((lease) => lease.release()))
})

test('a process that holds and waits keeps one connection', async (t) => {
  await until(async () => (await connections(server)) === 0)
  const [a, b] = [peer(t, server.port), peer(t, server.port)]
  const leases = await Promise.all(Array.from({ length: 20 }, (_, i) => a.locks.mutex(`h ${i}`).acquire()))
  const waits = leases.map((_, i) => b.locks.mutex(`h ${i}`).acquire())
  for (let i = 0; i < leases.length; i++) await inLine(a.locks, `h ${i}`, 1)
  await until(async () => (await connections(server)) === 2, { within: 25_000, every: 200 })
  await Promise.all(leases.map((lease) => lease.release()))
  for (const lease of await Promise.all(waits)) await lease.release()
})

test('any number of advisory locks keep one connection', async (t) => {
  await until(async () => (await connections(server)) === 0)
  const { locks } = peer(t, server.port, { strategy: 'session' })
  const leases = await Promise.all(Array.from({ length: 100 }, (_, i) => locks.mutex(`s ${i}`).acquire()))
  // One that asks and goes may be seen for a moment.
  await until(async () => (await connections(server)) === 1)
  const [row] = await server.sql(`select count(*)::int as n from pg_locks where locktype = 'advisory'`)
  assert.equal(row?.['n'], 100)
  await Promise.all(leases.map((lease) => lease.release()))
  const [after] = await server.sql(`select count(*)::int as n from pg_locks where locktype = 'advisory'`)
  assert.equal(after?.['n'], 0)
})

after(leakCheck)
