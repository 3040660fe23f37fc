// The strategy `session`: what depends on the one connection, and what happens when it ends.
// Second tier because `row` is the default; conformance/postgres-session.test.ts is in this tier, too.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import postgresJs from 'postgres'
import { systemEnv } from '../../../src/core/engine.js'
import { createLocks } from '../../../src/create-locks.js'
import { inTransaction, postgres, tryInTransaction } from '../../../src/drivers/postgres/index.js'
import { leakCheck } from '../../support/leaks.js'
import { startPostgres } from '../../support/servers/postgres.js'
import { until } from '../../support/until.js'
import { cabled, inLine, type Peer, peer, terminateAll } from './support/peer.js'

const server = await startPostgres()
after(() => server.stop())
const session = { strategy: 'session' } as const
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

test('when its connection is killed every lease is lost at once, and its holder is notified', async (t) => {
  const [a, b] = [peer(t, server.port, session), peer(t, server.port, session)]
  const leases = await Promise.all([1, 2, 3].map((i) => a.locks.mutex(`lost ${i}`).acquire({ ttl: 30_000 })))
  const why: string[] = []
  a.locks.on('lost', (event) => why.push(event.why))
  await terminateAll(server)
  await until(() => leases.every((lease) => lease.state === 'lost'), { within: 10_000 })
  assert.deepEqual(why, ['revoked', 'revoked', 'revoked'])
  const next = await b.locks.mutex('lost 1').acquire({ wait: 20_000 })
  assert.ok(next.token > (leases[0]?.token ?? 0))
  assert.equal(await leases[0]?.release(), 'lost')
  await next.release()
})

test('a waiter whose connection is killed keeps waiting', async (t) => {
  const [a, b] = [peer(t, server.port, session), peer(t, server.port, session)]
  const name = 'killed waiter'
  const lease = await a.locks.mutex(name).acquire()
  const next = b.locks.mutex(name).acquire({ wait: 60_000 })
  await inLine(a.locks, name, 1)
  await server.sql(
    `select pg_terminate_backend(pid) from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()
     and pid not in (select pid from holdfast_holds where pid is not null)`,
  )
  await lease.release()
  await (await next).release()
})

test('messages that come while the answer of a grant is on its way do not take the lock from its holder', async (t) => {
  const [a, c] = [peer(t, server.port, session), peer(t, server.port, session)]
  const b = await cabled(t, server, session)
  const name = 'told too often'
  let over = false
  const tell = async () => {
    while (!over)
      await server.sql(
        `select pg_notify(channel, 'w ' || attempt) from holdfast_waiters where channel is not null`,
      )
  }
  b.cable.down.delay(80)
  for (let round = 0; round < 5; round++) {
    const lease = await a.locks.mutex(name).acquire()
    const next = b.locks.mutex(name).acquire({ wait: 60_000 })
    await inLine(a.locks, name, 1)
    over = false
    const telling = tell()
    await pause(300)
    await lease.release()
    const second = await next
    over = true
    await telling
    // As long as another answer and a release of it would take.
    await pause(400)
    assert.equal(await c.locks.mutex(name).tryAcquire(), undefined, 'two holders')
    assert.equal(await second.release(), 'released')
  }
})

test('a holder that is cut off silently loses it before the server releases it', async (t) => {
  const a = await cabled(t, server, { ...session, ttl: 3_000 })
  const b = peer(t, server.port, session)
  const lease = await a.locks.mutex('cut off').acquire()
  const next = b.locks.mutex('cut off').acquire({ wait: 60_000 })
  await inLine(b.locks, 'cut off', 1)
  a.cable.blackHole()
  const second = await next
  assert.equal(lease.isHeld, false, 'two holders')
  assert.ok(second.token > lease.token)
  await second.release()
})

test('a short stall of the server does not end the leases of a long ttl', async (t) => {
  const a = peer(t, server.port, { ...session, ttl: 60_000 })
  const lease = await a.locks.mutex('stalled').acquire()
  server.pause()
  await assert.rejects(a.locks.mutex('other').tryAcquire(), { code: 'UNAVAILABLE' })
  server.resume()
  // By the same connection: another one would not have it.
  await until(async () => {
    const error: unknown = await lease.extend().then(
      () => undefined,
      (reason) => reason,
    )
    if (error !== undefined) assert.equal((error as { code?: string }).code, 'BACKEND')
    return error === undefined
  })
  assert.equal(lease.state, 'held')
  assert.equal(await lease.release(), 'released')
})

test('a grant that comes when the wait is over is released, also where the wait was over before it began', async (t) => {
  const { pool } = peer(t, server.port)
  const driver = postgres({ pool, ...session })(systemEnv())
  t.after(() => driver.close())
  for (const overAt of ['sent', 'answered']) {
    const attempt = systemEnv().id()
    const claim = {
      name: 'too late',
      attempt,
      mode: { kind: 'exclusive' },
      fair: false,
      ttl: 30_000,
    } as const
    const { signal } = new AbortController()
    // A single attempt that is granted, to somebody who has gone meanwhile.
    const wait = { signal, ended: true, remaining: () => (overAt === 'sent' ? 0 : 5) }
    assert.equal(await driver.acquire(claim, wait), undefined)
    assert.equal((await driver.inspect('too late')).holders.length, 0)
  }
})

test('a try that crosses the end of its idle session is made in another one', async (t) => {
  const a = await cabled(t, server, session)
  // After a second of silence the server ends it, and says so; that is under way while the try leaves.
  await a.locks.mutex('crossed').run(() => undefined, { ttl: 500 })
  a.cable.down.hold()
  await a.cable.down.holding()
  a.cable.up.hold()
  const tried = a.locks.mutex('crossed').tryAcquire({ ttl: 60_000 })
  await a.cable.up.holding()
  a.cable.down.pass()
  await until(() => a.cable.accepted > 1)
  a.cable.up.pass()
  const lease = await tried
  assert.equal(await lease?.release(), 'released')
})

test('names are separate from those of other programs and namespaces', async (t) => {
  const a = peer(t, server.port, session)
  const b = peer(t, server.port, { ...session, namespace: 'another', schema: 'another' })
  const lease = await a.locks.mutex('x').acquire()
  // The other one stays held meanwhile. Not at once: the schema is made first, which may take longer than a try.
  await (await b.locks.mutex('x').acquire({ wait: 20_000 })).release()
  assert.equal(lease.state, 'held')
  const [row] = await server.sql(`select hashtext('x') as key`)
  const [other] = await server.sql('select pg_try_advisory_lock($1) as got', [row?.['key']])
  assert.equal(other?.['got'], true)
  await lease.release()
})

test('namespaces in the same tables are apart: who holds, who waits, what there is', async (t) => {
  const a = peer(t, server.port, session)
  const b = peer(t, server.port, { ...session, namespace: 'another' })
  const c = peer(t, server.port, { ...session, namespace: 'another' })
  const names = async (locks: typeof a.locks) => (await locks.list('apart')).map(({ name }) => name)
  const first = await a.locks.mutex('apart').acquire()
  const second = await b.locks.mutex('apart').acquire()
  const third = await b.locks.mutex('apart too').acquire()
  assert.deepEqual(await names(a.locks), ['apart'])
  assert.deepEqual(await names(c.locks), ['apart', 'apart too'])
  assert.deepEqual(
    (await c.locks.inspect('apart')).holders.map(({ token }) => token),
    [second.token],
  )
  const waits = c.locks.mutex('apart').acquire()
  await inLine(b.locks, 'apart', 1)
  assert.deepEqual((await a.locks.inspect('apart')).waiters, [])
  const client = await b.pool.connect()
  try {
    await client.query('begin')
    assert.equal(await tryInTransaction(client, 'apart too', { namespace: 'another' }), undefined)
    assert.ok(await tryInTransaction(client, 'apart too'))
    await client.query('rollback')
  } finally {
    client.release()
  }
  for (const lease of [first, second, third]) assert.equal(await lease.release(), 'released')
  await (await waits).release()
})

test('waiting for a lock of a transaction does not block the rest of the process', async (t) => {
  const [a, b] = [peer(t, server.port, session), peer(t, server.port)]
  await a.locks.mutex('warm').run(() => undefined)
  const client = await b.pool.connect()
  try {
    await client.query('begin')
    await inTransaction(client, 'long transaction')
    const waits = Array.from({ length: 10 }, () =>
      a.locks.mutex('long transaction').acquire({ fair: true, wait: 60_000 }),
    )
    await inLine(a.locks, 'long transaction', 10)
    // The server waits a second and a half for a row that somebody keeps; nobody here may wait for one.
    let slowest = 0
    for (let i = 0; i < 20; i++) {
      const began = performance.now()
      await a.locks.mutex('free').run(() => undefined)
      slowest = Math.max(slowest, performance.now() - began)
    }
    assert.ok(slowest < 1_200, `a free lock took ${slowest} ms`)
    await client.query('commit')
    for (const wait of waits) await (await wait).release()
  } finally {
    client.release()
  }
})

for (const strategy of ['row', 'session'] as const) {
  test(`a healthy application forgets names that it used once (${strategy})`, async (t) => {
    const { locks } = peer(t, server.port, {
      strategy,
      retention: 60_000,
      eager: true,
      schema: `reap_${strategy}`,
    })
    const busy = await locks.mutex('busy').acquire()
    const left = async () =>
      (await server.sql(`select name from reap_${strategy}.holdfast_locks`)).map(({ name }) =>
        String(name).replace('\u0001', ''),
      )
    await server.sql(`insert into reap_${strategy}.holdfast_locks (name, used)
      select ${strategy === 'row' ? '' : 'chr(1) ||'} 'order ' || i, 1 from generate_series(1, 1500) i`)
    await server.sql(`insert into reap_${strategy}.holdfast_cells values ('once:order', 1, null, null, 1)`)
    // The next is due within the retention; only use reminds it.
    const other = peer(t, server.port, {
      strategy,
      retention: 60_000,
      eager: true,
      schema: `reap_${strategy}`,
    })
    await other.locks.mutex('alive').run(() => undefined)
    await until(async () => (await left()).length <= 2)
    assert.ok((await left()).includes('busy'))
    await until(async () => (await server.sql(`select from reap_${strategy}.holdfast_cells`)).length === 0)
    assert.equal(await busy.release(), 'released')
  })
}

test('rows left by a dead session are ignored', async (t) => {
  const [a, b] = [peer(t, server.port, session), peer(t, server.port, session)]
  const name = 'left over'
  await a.locks.mutex(name).acquire({ ttl: 30_000 })
  await server.restart()
  assert.equal((await b.locks.inspect(name)).holders.length, 0)
  const lease = await b.locks.mutex(name).acquire({ wait: 30_000 })
  assert.equal((await b.locks.inspect(name)).holders.length, 1)
  await lease.release()
  assert.deepEqual(await server.sql(`select name from holdfast_holds where name like '%left over'`), [])
})

test('the entry of a dead waiter does not block others for as long as the server’s clock was set back', async (t) => {
  const a = peer(t, server.port, session)
  const name = 'set back'
  await a.locks.mutex(name).run(() => undefined)
  await server.sql(
    `insert into holdfast_waiters (name, ticket, attempt, kind, take, permits, ttl, due, since)
     select chr(1) || '${name}', 1, 'dead', 'x', 1, 1, 30000000, later, later
     from (select (extract(epoch from clock_timestamp()) * 1000000)::bigint + 3600000000 as later) l`,
  )
  assert.equal((await a.locks.inspect(name)).waiters.length, 1)
  await (await a.locks.mutex(name).acquire({ wait: 10_000 })).release()
})

test('a statement that is cancelled after it has the advisory lock leaves none: others are not kept out', async (t) => {
  const [a, b] = [peer(t, server.port, session), peer(t, server.port, session)]
  const shelf = (locks: typeof a.locks) => locks.readWrite('cancelled').read
  await shelf(a.locks).run(() => undefined)
  // Its connection lasts: what it keeps would stay locked permanently.
  const lasting = await a.locks.mutex('lasting').acquire({ ttl: 600_000 })
  // The first statement of each round is cancelled by the server itself where it makes the token: it has the advisory lock by then.
  await server.sql('create sequence cancellations')
  await server.sql(
    `create function cancel_first() returns trigger language plpgsql as $$ begin
       if nextval('public.cancellations') = 1 then
         perform pg_cancel_backend(pg_backend_pid());
         perform pg_sleep(60);
       end if;
       return new;
     end $$`,
  )
  await server.sql(
    `create trigger cancelling before insert on holdfast_locks
     for each row when (new.name = chr(1) || 'cancelled') execute function cancel_first()`,
  )
  for (const also of ['nobody', 'a reader of the same process']) {
    await server.sql('alter sequence cancellations restart')
    const refused = assert.rejects(shelf(a.locks).tryAcquire(), /57014/)
    const second = also === 'nobody' ? undefined : shelf(a.locks).acquire()
    await refused
    await (await second)?.release()
    const writer = await b.locks.readWrite('cancelled').write.acquire({ wait: 20_000 })
    await writer.release()
  }
  assert.equal(lasting.state, 'held')
  await lasting.release()
})

test('a claim that was given up while its statement was to be repeated leaves no queue entry', async (t) => {
  const [a, b, c] = [1, 2, 3].map(() => peer(t, server.port, session)) as [Peer, Peer, Peer]
  const name = 'given up'
  const holder = await c.locks.mutex(name).acquire()
  const over = new AbortController()
  const refused = assert.rejects(a.locks.mutex(name).acquire({ signal: over.signal, wait: 60_000 }), {
    name: 'AbortError',
  })
  await inLine(b.locks, name, 1)
  const next = b.locks.mutex(name).acquire({ wait: 60_000 })
  await inLine(b.locks, name, 2)
  // The first grant from now on takes a second, and then the server breaks a deadlock by refusing it: it is to be repeated.
  await server.sql('create sequence deadlocks')
  await server.sql(
    `create function deadlock_first() returns trigger language plpgsql as $$ begin
       if nextval('public.deadlocks') = 1 then
         perform pg_sleep(1);
         raise 'one of two' using errcode = '40P01';
       end if;
       return new;
     end $$`,
  )
  await server.sql(
    `create trigger deadlocking before insert on holdfast_holds
     for each row when (new.name = chr(1) || '${name}') execute function deadlock_first()`,
  )
  await holder.release()
  await until(async () => (await server.sql('select is_called from deadlocks'))[0]?.['is_called'] === true, {
    what: 'the grant in progress',
  })
  over.abort()
  await refused
  const lease = await next
  // A repetition would come within 10 ms, and its entry would stay for seconds.
  await pause(200)
  await a.locks.mutex('something else').run(() => undefined)
  assert.deepEqual((await b.locks.inspect(name)).waiters, [])
  await lease.release()
  await server.sql('drop trigger deadlocking on holdfast_holds')
})

test('an advisory lock left over by a refused commit is released', async (t) => {
  const [a, b] = [peer(t, server.port, session), peer(t, server.port, session)]
  const name = 'refused commit'
  await a.locks.mutex(name).run(() => undefined)
  const lasting = await a.locks.mutex('lasting too').acquire({ ttl: 600_000 })
  // No handler inside of the statement sees this: it comes when the statement has ended.
  await server.sql(
    `create function refuse() returns trigger language plpgsql as $$ begin raise 'not now' using errcode = '57014'; end $$`,
  )
  await server.sql(
    `create constraint trigger refusing after insert on holdfast_holds deferrable initially deferred
     for each row when (new.name = chr(1) || '${name}') execute function refuse()`,
  )
  await assert.rejects(a.locks.mutex(name).tryAcquire(), /57014/)
  await server.sql('drop trigger refusing on holdfast_holds')
  await (await b.locks.mutex(name).acquire({ wait: 20_000 })).release()
  assert.equal(lasting.state, 'held')
  await lasting.release()
})

test('a hold whose release is refused for longer than its ttl is released as soon as it can be', async (t) => {
  const [a, b] = [peer(t, server.port, session), peer(t, server.port, session)]
  const name = 'refused release'
  // Its connection lasts, and with it would what is not released.
  const lasting = await a.locks.mutex('lasting as well').acquire({ ttl: 600_000 })
  // Long enough to be held still when the server has been told to refuse.
  const lease = await a.locks.mutex(name).acquire({ ttl: 2_000 })
  await server.sql('create sequence refusals')
  await server.sql(
    `create function refuse_end() returns trigger language plpgsql as $$
     begin perform nextval('public.refusals'); raise 'not now' using errcode = '25006'; end $$`,
  )
  await server.sql(
    `create trigger refusing before delete on holdfast_holds
     for each row when (old.name = chr(1) || '${name}') execute function refuse_end()`,
  )
  const validUntil = performance.now() + lease.remaining()
  assert.equal(await lease.release(), 'unknown')
  // Once the lease would have ended in any other store, the holder has stopped asking.
  await until(() => performance.now() > validUntil + 500)
  const refusals = async () => Number((await server.sql('select last_value as n from refusals'))[0]?.['n'])
  const before = await refusals()
  await until(async () => (await refusals()) > before)
  await server.sql('drop trigger refusing on holdfast_holds')
  await (await b.locks.mutex(name).acquire({ wait: 20_000 })).release()
  assert.equal(lasting.state, 'held')
  await lasting.release()
})

test('with postgres.js on an instance of one connection', async (t) => {
  const make = () => {
    const sql = postgresJs(server.url, { max: 1, max_lifetime: null, fetch_types: false })
    const locks = createLocks(postgres({ pool: sql as never, ...session }))
    t.after(async () => {
      await locks.close()
      await sql.end({ timeout: 1 })
    })
    return locks
  }
  const pool = postgresJs(server.url) as never
  assert.throws(
    () => postgres({ pool, ...session }),
    /session' over this instance; make an instance of its own/,
  )
  const [a, b] = [make(), make()]
  const lease = await a.mutex('js').acquire({ ttl: 20_000 })
  const next = b.mutex('js').acquire({ wait: 60_000, ttl: 900 })
  await until(async () => (await a.inspect('js')).waiters.length === 1)
  assert.equal(await lease.release(), 'released')
  const second = await next
  assert.ok(second.token > lease.token)
  // It is not told that the connection ended, and finds out at the next heartbeat.
  const third = await a.mutex('heartbeat').acquire({ ttl: 900 })
  await terminateAll(server)
  await until(() => third.state === 'lost' && second.state === 'lost', { within: 12_000 })
})

after(leakCheck)
