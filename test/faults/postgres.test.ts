// The strategy `row` while things break: connections killed at every step, replies and notifications lost, the server killed, its
// clock moved.
// Second tier because it takes a third of a minute; the suite's outage and crash are the part for every change.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { after, type TestContext, test } from 'node:test'
import type { PostgresJs, PostgresJsQuery } from '../../src/drivers/postgres/client.js'
import { migration, postgres } from '../../src/drivers/postgres/index.js'
import { createLocks, type Lease } from '../../src/index.js'
import { open } from '../drivers/postgres/support/clients.js'
import { cabled, inLine, peer, terminateAll } from '../drivers/postgres/support/peer.js'
import { passesUntil } from '../drivers/support/passes.js'
import { leakCheck } from '../support/leaks.js'
import { startPostgres } from '../support/servers/postgres.js'
import { until } from '../support/until.js'

const server = await startPostgres({ preload: ['clock'] })
after(() => server.stop())
await server.sql('select 1')

test('every connection killed, again and again: one holder at a time, growing tokens, no unreported error', async (t) => {
  const peers = Array.from({ length: 4 }, () => peer(t, server.port, { ttl: 5_000 }))
  const name = 'under fire'
  const stop = performance.now() + 4_000
  const inside = new Set<Lease>()
  let done = 0
  let killed = 0
  let newest = 0
  const overlaps: number[] = []
  // On a slow machine until that is enough, too.
  const goesOn = () => performance.now() < stop || killed <= 10
  const work = peers.map(async ({ locks }) => {
    while (goesOn()) {
      // The server is there, only connections go: the waiter gets the lock in the end.
      const lease = await locks.mutex(name).acquire({ wait: 60_000 })
      for (const other of inside) if (other.isHeld) overlaps.push(other.token, lease.token)
      assert.ok(lease.token > newest, `${lease.token} came after ${newest}`)
      newest = lease.token
      inside.add(lease)
      await new Promise((resolve) => setTimeout(resolve, 2))
      inside.delete(lease)
      done++
      await lease.release()
    }
  })
  while (goesOn()) {
    await new Promise((resolve) => setTimeout(resolve, 40 + Math.random() * 60))
    killed += await terminateAll(server)
  }
  await Promise.all(work)
  assert.deepEqual(overlaps, [])
  assert.ok(killed > 10 && done > 0, `${killed} killed, ${done} sections`)
})

test('a single attempt is sent once, even if its channel comes up meanwhile, and holds nothing after "not free"', async (t) => {
  const holder = peer(t, server.port)
  const { client, asked, hold, rises, close } = heldBack(server.port)
  const locks = createLocks(postgres({ pool: client, commandTimeout: 30_000 }))
  t.after(async () => {
    await locks.close()
    await close()
  })
  const lease = await holder.locks.mutex('asked twice').acquire()
  const other = await holder.locks.mutex('line').acquire()
  // It waits for something, so it opens its channel; that it is up comes when we say so.
  const waits = locks.mutex('line').acquire()
  await inLine(holder.locks, 'line', 1)
  const rise = await rises
  hold()
  const attempt = locks.mutex('asked twice').tryAcquire()
  await until(() => asked('asked twice').length === 1)
  rise()
  await until(() => asked('line').length === 1)
  const [first, ...others] = asked('asked twice')
  assert.deepEqual(others, [])
  await first?.()
  assert.equal(await attempt, undefined)
  await lease.release()
  assert.deepEqual((await holder.locks.inspect('asked twice')).holders, [])
  await other.release()
  for (const late of asked('line')) await late()
  await (await waits).release()
})

test('a grant to a wait that was given up so long ago that the server has forgotten it is released', async (t) => {
  const holder = peer(t, server.port)
  const { client, asked, hold, rises, close } = heldBack(server.port)
  const locks = createLocks(postgres({ pool: client, commandTimeout: 30_000 }))
  t.after(async () => {
    await locks.close()
    await close()
  })
  const name = 'forgotten'
  const lease = await holder.locks.mutex(name).acquire()
  const [gone, reason] = [new AbortController(), new Error('given up')]
  const refused = assert.rejects(
    locks.mutex(name).acquire({ signal: gone.signal, ttl: 600_000 }),
    (error) => error === reason,
  )
  await inLine(holder.locks, name, 1)
  const rise = await rises
  hold()
  rise()
  await until(() => asked(name).length > 0)
  gone.abort(reason)
  await refused
  await inLine(holder.locks, name, 0)
  await lease.release()
  for (let i = 0; i < 10; i++) await holder.locks.mutex(name).run(() => undefined)
  await server.sql('delete from holdfast_ghosts')
  const late = await Promise.all(asked(name).map((send) => send()))
  assert.match(JSON.stringify(late), /granted/)
  await until(async () => (await holder.locks.inspect(name)).holders.length === 0)
})

test('a wait that was given up in an outage leaves no queue entry when the locks are closed during a retry', async (t) => {
  const b = peer(t, server.port)
  const a = await cabled(t, server, { commandTimeout: 500 })
  const name = 'closed during a retry'
  const lease = await b.locks.mutex(name).acquire()
  const gone = new AbortController()
  const waits = a.locks.mutex(name).acquire({ signal: gone.signal })
  await inLine(b.locks, name, 1)
  const isCancel = (bytes: Buffer) => bytes.includes('holdfast_cancel')
  a.cable.up.hold(isCancel)
  const ended = assert.rejects(waits)
  gone.abort()
  await ended
  await until(() => a.cable.up.held.filter(({ bytes }) => isCancel(bytes)).length === 2, { what: 'a retry' })
  const closed = a.locks.close()
  a.cable.reset()
  a.cable.up.pass()
  await closed
  assert.deepEqual((await b.locks.inspect(name)).waiters, [])
  await lease.release()
})

test('a holder whose connection is killed keeps the lock, and releases it', async (t) => {
  const [a, b] = [peer(t, server.port), peer(t, server.port)]
  const lease = await a.locks.mutex('killed').acquire()
  await terminateAll(server)
  assert.equal(lease.isHeld, true)
  assert.equal(await b.locks.mutex('killed').tryAcquire(), undefined)
  await lease.extend()
  assert.equal(await lease.release(), 'released')
  await (await b.locks.mutex('killed').acquire({ wait: 20_000 })).release()
})

test('a waiter whose connection is killed still learns of the release', async (t) => {
  // It listens again and asks; by itself it would not.
  const [a, b] = [peer(t, server.port), peer(t, server.port, { onlyTold: true })]
  const lease = await a.locks.mutex('deaf').acquire()
  const next = b.locks.mutex('deaf').acquire({ wait: 60_000 })
  await inLine(a.locks, 'deaf', 1)
  await terminateAll(server)
  await lease.release()
  await (await next).release()
})

for (const direction of ['up', 'down'] as const) {
  const what = direction === 'up' ? 'the statement' : 'the reply to its commit'
  test(`an acquire that loses ${what} leaves one hold or none`, async (t) => {
    const a = await cabled(t, server)
    const b = peer(t, server.port)
    const name = `lost acquire ${direction}`
    await a.locks.mutex('warm').run(() => undefined)
    a.cable[direction].hold((bytes) => bytes.includes(direction === 'up' ? 'holdfast_acquire' : 'granted'))
    const lease = a.locks.mutex(name).acquire({ wait: 60_000 })
    await a.cable[direction].holding()
    a.cable.reset()
    a.cable[direction].pass()
    const got = await lease
    assert.equal((await b.locks.inspect(name)).holders.length, 1)
    assert.equal(got.token, (await b.locks.inspect(name)).holders[0]?.token)
    assert.equal(await got.release(), 'released')
    assert.equal((await b.locks.inspect(name)).holders.length, 0)
  })

  test(`a release that loses ${what} is carried out once`, async (t) => {
    const a = await cabled(t, server, { commandTimeout: 20_000 })
    const b = peer(t, server.port)
    const name = `lost release ${direction}`
    const lease = await a.locks.mutex(name).acquire()
    a.cable[direction].hold((bytes) =>
      direction === 'up' ? bytes.includes('holdfast_release') : bytes.includes('answer'),
    )
    const released = lease.release()
    await a.cable[direction].holding()
    a.cable.reset()
    a.cable[direction].pass()
    assert.equal(await released, 'released')
    const second = await b.locks.mutex(name).acquire({ wait: 20_000 })
    assert.ok(second.token > lease.token)
    assert.equal((await b.locks.inspect(name)).holders.length, 1)
    await second.release()
  })
}

/** One whose pushes come over a connection that has nothing to do with the answers, and is up. */
async function twoWays(t: TestContext, name: string) {
  const b = peer(t, server.port)
  // Answers are held back here, and are not to be given up for lost. What it asks again, it asks for a push.
  const a = await cabled(t, server, { listen: b.pool, commandTimeout: 30_000, onlyTold: true })
  const held = await b.locks.mutex(name).acquire()
  const waited = a.locks.mutex(name).acquire()
  const reachable = 'select from holdfast_waiters where name = $1 and channel is not null'
  await until(async () => (await server.sql(reachable, [name])).length === 1)
  await held.release()
  await (await waited).release()
  return { a, b }
}

/** Resolves with a lease, to be released, once `a` has heard all that was pushed to it until then; its answers may be held back meanwhile. */
async function hearing({ a, b }: Awaited<ReturnType<typeof twoWays>>, name: string) {
  // Pushes come in their order: who has heard this one has heard those before it.
  const last = await b.locks.mutex(name).acquire()
  const inLineNow = new Promise<void>((resolve) => {
    a.locks.on('waiting', (about) => about.name === name && resolve())
  })
  const heard = a.locks.mutex(name).acquire()
  await inLineNow
  return async () => {
    // A push that was long under way is not believed, but asked about; and that answer would stay behind the one held back.
    let told = false
    void heard.then(() => {
      told = true
    })
    a.cable.up.hold((bytes) => {
      told ||= bytes.includes(name)
      return false
    })
    await last.release()
    await until(() => told, { what: 'the push to be heard' })
    a.cable.heal()
    return heard
  }
}

test('“somebody waits” before the answer to the request: the lock is not kept for this process alone', async (t) => {
  const ways = await twoWays(t, 'channel')
  const { a, b } = ways
  const hasHeard = await hearing(ways, 'heard after it')
  a.cable.down.hold((bytes) => bytes.includes('granted'))
  const asked = a.locks.mutex('told early').acquire()
  await a.cable.down.holding()
  const other = b.locks.mutex('told early').acquire({ wait: 60_000 })
  await inLine(b.locks, 'told early', 1)
  const heardLast = await hasHeard()
  assert.ok((await passesUntil(a.locks.mutex('told early'), await asked, other)) <= 17)
  await heardLast.release()
})

test('“an operator took it” before the answer to the request: the lease that comes of it is another one', async (t) => {
  const ways = await twoWays(t, 'other channel')
  const { a, b } = ways
  const hasHeard = await hearing(ways, 'heard last')
  a.cable.down.hold((bytes) => bytes.includes('granted'))
  const asked = a.locks.mutex('taken early').acquire()
  await a.cable.down.holding()
  const [first] = (await b.locks.inspect('taken early')).holders
  assert.equal(await b.locks.forceRelease('taken early'), 1)
  const heardLast = await hasHeard()
  const lease = await asked
  const { holders } = await b.locks.inspect('taken early')
  assert.ok(first !== undefined && lease.token > first.token, `${lease.token} after ${first?.token}`)
  assert.deepEqual(
    holders.map(({ token }) => token),
    [lease.token],
  )
  assert.equal(await lease.release(), 'released')
  await heardLast.release()
})

test('a holder whose process has never waited learns of a forced release at its next renewal, not before', async (t) => {
  const [a, b] = [peer(t, server.port), peer(t, server.port)]
  const lease = await a.locks.mutex('never waited').acquire({ ttl: 60_000 })
  assert.equal(await b.locks.forceRelease('never waited'), 1)
  // Its connection has carried answers since.
  assert.deepEqual((await a.locks.inspect('never waited')).holders, [])
  assert.ok(lease.isHeld)
  await assert.rejects(lease.extend(), { code: 'LEASE_LOST' })
  assert.equal(lease.isHeld, false)
})

test('a try whose reply is lost is an error, and nobody holds it longer than a moment', async (t) => {
  const a = await cabled(t, server, { commandTimeout: 300 })
  const b = peer(t, server.port)
  await a.locks.mutex('warm').run(() => undefined)
  a.cable.down.drop()
  await assert.rejects(a.locks.mutex('lost try').tryAcquire({ ttl: 30_000 }), { code: 'UNAVAILABLE' })
  a.cable.heal()
  // Not after the ttl: what came of it is ended as soon as the server can be reached.
  await (await b.locks.mutex('lost try').acquire({ wait: 20_000 })).release()
})

for (const strategy of ['row', 'session'] as const) {
  test(`a reply that arrived while the event loop was blocked is read before its request is given up (${strategy})`, async (t) => {
    const { locks } = peer(t, server.port, { strategy, commandTimeout: 200 })
    await locks.mutex('stood still').run(() => undefined)
    const asked = locks.mutex('stood still').tryAcquire({ ttl: 60_000 })
    // It leaves now. Nothing is read here until the server has carried it out, and its time is over.
    await new Promise(setImmediate)
    const held =
      strategy === 'row'
        ? `select from holdfast_locks where name = 'stood still' and kind = 'x'`
        : `select from holdfast_holds where name = chr(1) || 'stood still'`
    const script = `(async () => {
      const began = performance.now()
      const client = new (require('pg').Client)(${JSON.stringify(server.url)})
      await client.connect()
      for (let seen = 0; seen < 3 || performance.now() < began + 400; ) {
        if ((await client.query(${JSON.stringify(held)})).rowCount > 0) seen++
        await new Promise((resolve) => setTimeout(resolve, 20))
      }
      process.exit()
    })()`
    const { status } = spawnSync(process.execPath, ['-e', script], { timeout: 20_000, stdio: 'inherit' })
    assert.equal(status, 0)
    const lease = await asked
    assert.ok(lease, 'the answer was there')
    await lease.release()
  })
}

test('a server killed with -9 keeps the lock, the queue and the tokens', async (t) => {
  const [a, b] = [peer(t, server.port, { ttl: 120_000 }), peer(t, server.port)]
  const lease = await a.locks.mutex('survives').acquire()
  const next = b.locks.mutex('survives').acquire({ wait: 120_000 })
  await inLine(a.locks, 'survives', 1)
  await server.restart()
  assert.equal(lease.isHeld, true)
  assert.equal(await peer(t, server.port).locks.mutex('survives').tryAcquire(), undefined)
  await until(async () => (await lease.release()) !== 'unknown', { within: 20_000 })
  const second = await next
  assert.ok(second.token > lease.token)
  await second.release()
})

test('a lost notification costs the ttl of its recipient, and no more', async (t) => {
  const [a, c] = [peer(t, server.port), peer(t, server.port, { onlyTold: true })]
  const b = await cabled(t, server, { commandTimeout: 60_000 })
  const name = 'lost push'
  const lease = await a.locks.mutex(name).acquire()
  const deaf = b.locks.mutex(name).acquire({ ttl: 400, wait: 60_000 })
  await inLine(a.locks, name, 1)
  const behind = c.locks.mutex(name).acquire({ wait: 60_000 })
  await inLine(a.locks, name, 2)
  // Both have said where they can be reached.
  const reachable = 'select from holdfast_waiters where name = $1 and channel is not null'
  await until(async () => (await server.sql(reachable, [name])).length === 2)
  // It neither learns of it nor asks.
  b.cable.up.hold()
  await server.sql(`update holdfast_waiters set channel = 'nowhere' where name = $1 and ttl = 400000`, [name])
  await lease.release()
  // The one behind is told when the hold above it runs out; it asks for no other reason.
  const second = await behind
  await second.release()
  // And the deaf one finds its lock by asking.
  b.cable.up.pass()
  await (await deaf).release()
})

test('a stranger who locks the row of one lock affects no other lease', async (t) => {
  const { locks, pool } = peer(t, server.port)
  const names = Array.from({ length: 6 }, (_, i) => `kept ${i}`)
  // A machine that is paused for a moment loses none of the others.
  const leases = await Promise.all(names.map((name) => locks.mutex(name).acquire({ ttl: 9_000 })))
  const lost: string[] = []
  locks.on('lost', ({ name }) => lost.push(name))
  const stranger = await pool.connect()
  try {
    await stranger.query('begin')
    await stranger.query(`select from holdfast_locks where name = 'kept 2' for update`)
    // Longer than the ttl: what cannot be renewed is lost by then.
    await until(() => lost.length > 0)
    for (const lease of leases) if (lease.name !== 'kept 2') await lease.extend()
    assert.deepEqual(lost, ['kept 2'])
  } finally {
    await stranger.query('rollback')
    stranger.release()
  }
  for (const lease of leases)
    assert.equal(await lease.release(), lease.name === 'kept 2' ? 'lost' : 'released')
})

test('when the notification queue is full, the release succeeds without a notification', async (t) => {
  await server.sql(`create schema full_queue`)
  await server.sql(`create function full_queue.pg_notify(text, text) returns void language plpgsql as $$
    begin raise exception 'too many notifications in the NOTIFY queue' using errcode = '54000'; end $$`)
  // A queue of 8 GB is not filled in a test.
  const text = migration({ schema: 'full' })
  await server.sql(text.replaceAll('perform pg_notify(', 'perform full_queue.pg_notify('))
  const [a, b] = [peer(t, server.port, { schema: 'full' }), peer(t, server.port, { schema: 'full' })]
  const lease = await a.locks.mutex('quiet').acquire()
  const next = b.locks.mutex('quiet').acquire({ wait: 60_000 })
  await inLine(b.locks, 'quiet', 1)
  assert.equal(await lease.release(), 'released')
  await (await next).release()
})

test('a clock set forward ends a lease early; its holder is notified, tokens still grow', async (t) => {
  const [a, b] = [peer(t, server.port), peer(t, server.port)]
  const lease = await a.locks.mutex('forward').acquire({ ttl: 3_000 })
  server.clockJump(3_600_000)
  try {
    const second = await b.locks.mutex('forward').acquire({ wait: 20_000 })
    assert.ok(second.token > lease.token)
    await until(() => lease.state === 'lost', { within: 10_000 })
    await second.release()
  } finally {
    server.clockJump(-3_600_000)
  }
})

test('a clock set back delays nobody for longer than a ttl, and no token repeats', async (t) => {
  const [a, b] = [peer(t, server.port), peer(t, server.port)]
  server.clockJump(3_600_000)
  const lease = await a.locks.mutex('back').acquire({ ttl: 1_000, autoRenew: false })
  server.clockJump(-3_600_000)
  // The server says it is held for another hour.
  const second = await b.locks.mutex('back').acquire({ wait: 60_000 })
  assert.ok(second.token > lease.token)
  assert.equal(lease.isHeld, false)
  await second.release()
})

test('a hand-over across a jump of the clock is confirmed by asking', async (t) => {
  const [a, b] = [peer(t, server.port), peer(t, server.port)]
  for (const jump of [3_600_000, -3_600_000]) {
    const lease = await a.locks.mutex('jumped').acquire({ ttl: 60_000 })
    const next = b.locks.mutex('jumped').acquire({ wait: 60_000, ttl: 60_000 })
    await inLine(a.locks, 'jumped', 1)
    server.clockJump(jump)
    await lease.release()
    const second = await next
    assert.ok(second.remaining() <= 60_000, `believes it has ${second.remaining()} ms`)
    await second.release()
  }
})

after(leakCheck)

/** A postgres.js client whose acquires, from `hold` on, wait to be sent until they are called, and that learns that it listens when it is told. */
function heldBack(port: number) {
  const { pool, close } = open('postgres.js', port)
  const sql = pool as PostgresJs
  const held: { readonly name: unknown; readonly send: () => Promise<unknown> }[] = []
  let holding = false
  let heard: (rise: () => void) => void
  const rises = new Promise<() => void>((resolve) => {
    heard = resolve
  })
  const unsafe: PostgresJs['unsafe'] = (text, values) => {
    if (!holding || !text.includes('holdfast_acquire')) return sql.unsafe(text, values)
    return new Promise((resolve, reject) => {
      const send = () => {
        const sent = Promise.resolve(sql.unsafe(text, values))
        sent.then(resolve, reject)
        return sent
      }
      held.push({ name: values?.[0], send })
    }) as unknown as PostgresJsQuery
  }
  const client = Object.assign(() => undefined, {
    unsafe,
    options: sql.options,
    listen: (channel: string, push: (payload: string) => void, up?: () => void) =>
      sql.listen(channel, push, () => up && heard(up)),
  })
  return {
    client,
    close,
    rises,
    hold: () => {
      holding = true
    },
    asked: (name: string) => held.filter((ask) => ask.name === name).map(({ send }) => send),
  }
}
