// The subscription of a process breaks and is restored: changes in between are found then.
import assert from 'node:assert/strict'
import { after, type TestContext, test } from 'node:test'
import type { Locks } from '../../../src/index.js'
import { leakCheck } from '../../support/leaks.js'
import type { TcpProxy } from '../../support/proxy.js'
import { startPostgres } from '../../support/servers/postgres.js'
import { until } from '../../support/until.js'
import { cabled, inLine, peer } from './support/peer.js'

const server = await startPostgres()
after(() => server.stop())

/** Much longer than the test: no renewal finds anything out. */
const ttl = 3_600_000

/** A peer with one cable for its statements and one for its subscription, which is open. */
async function wired(t: TestContext): Promise<{ locks: Locks; talk: TcpProxy; hear: TcpProxy }> {
  const listening = await cabled(t, server)
  const { locks, cable: talk } = await cabled(t, server, { listen: listening.pool })
  const first = await peer(t, server.port).locks.mutex('opens it').acquire()
  const waited = locks.mutex('opens it').acquire()
  await inLine(locks, 'opens it', 1)
  await until(async () => (await subscriptions()) === 1)
  await first.release()
  await (await waited).release()
  return { locks, talk, hear: listening.cable }
}

async function subscriptions(): Promise<number> {
  const [row] = await server.sql(
    `select count(*)::int as n from holdfast_waiters where name = 'opens it' and listener is not null`,
  )
  return Number(row?.['n'])
}

test('a forced release while the subscription is away is found as soon as it is back', async (t) => {
  const { locks, talk, hear } = await wired(t)
  const { signal } = await locks.mutex('forced while away').acquire({ ttl })
  hear.up.hold()
  talk.up.hold()
  hear.reset()
  // The next subscription is on its way, and so is the check of every hold that the end of the last one causes.
  await Promise.all([hear.up.holding(), talk.up.holding()])
  const { bytes } = talk.down
  talk.up.pass()
  await until(() => talk.down.bytes > bytes)
  assert.equal(await peer(t, server.port).locks.forceRelease('forced while away'), 1)
  assert.equal(signal.aborted, false)
  hear.up.pass()
  await until(() => signal.aborted)
  assert.equal(signal.reason.why, 'revoked')
})

test('a hold that was granted while the subscription was away is notified of a forced release once it is back', async (t) => {
  const { locks, hear } = await wired(t)
  // Without a hold or a waiter nobody needs a subscription.
  await locks.mutex('needs a subscription').acquire({ ttl })
  hear.up.hold()
  hear.reset()
  await hear.up.holding()
  const leases = await Promise.all([
    locks.mutex('writes while away').acquire({ ttl }),
    locks.readWrite('reads while away').read.acquire({ ttl }),
    locks
      .all([locks.mutex('first of two while away'), locks.mutex('second of two while away')])
      .acquire({ ttl }),
  ])
  const signals = leases.map(({ signal }) => signal)
  const names = ['writes while away', 'reads while away', 'first of two while away']
  assert.deepEqual(await unheard(names), names.toSorted())
  hear.up.pass()
  await until(async () => (await unheard(names)).length === 0, { what: 'the server to know where to notify' })
  for (const name of names) assert.equal(await peer(t, server.port).locks.forceRelease(name), 1)
  await until(() => signals.every(({ aborted }) => aborted))
  for (const { reason } of signals) assert.equal(reason.why, 'revoked')
})

test('a grant to a request that had no channel before records the one that it has now', async (t) => {
  await peer(t, server.port)
    .locks.mutex('the schema')
    .run(async () => {})
  const ask = async (name: string, attempt: string, kind: 'x' | 's', channel: string | null) => {
    const [row] = await server.sql(
      `select holdfast_acquire_v1($1, $2, $3, 60000000, 1, 1, 1, 60000000, 0, $4, null, 'a test', null, 0) as answer`,
      [name, attempt, kind, channel],
    )
    return JSON.parse(String(row?.['answer']))[0]
  }
  // The reply to the first request was lost.
  for (const kind of ['x', 's'] as const) {
    const name = `asked twice ${kind}`
    assert.equal(await ask(name, 'a', kind, null), 'granted')
    assert.deepEqual(await unheard([name]), [name])
    assert.equal(await ask(name, 'a', kind, 'c'), 'granted')
    assert.deepEqual(await unheard([name]), [])
  }
  // The entry in the queue has no channel, and the request that finds the lock free has one.
  await ask('queued', 'a', 'x', 'c')
  assert.equal(await ask('queued', 'b', 'x', null), 'blocked')
  await server.sql(`update holdfast_locks set expires = 0 where name = 'queued'`)
  assert.equal(await ask('queued', 'b', 'x', 'c'), 'granted')
  assert.deepEqual(await unheard(['queued']), [])
})

/** Those of the names whose hold has no channel. */
async function unheard(names: readonly string[]): Promise<unknown[]> {
  const rows = await server.sql(
    `select name from (select name, channel from holdfast_locks where kind = 'x'
       union all select name, channel from holdfast_holds) a where name = any($1) and channel is null order by name`,
    [names],
  )
  return rows.map(({ name }) => name)
}

after(leakCheck)
