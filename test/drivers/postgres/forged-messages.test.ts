// Someone with an account that can read everything and write nothing sends what the server would send: NOTIFY needs no right. It is aimed
// at attempts that live, read from the tables. Nothing comes of it, and the genuine message takes effect.
import assert from 'node:assert/strict'
import { after, type TestContext, test } from 'node:test'
import { Client } from 'pg'
import { LeaseLostError } from '../../../src/index.js'
import { leakCheck } from '../../support/leaks.js'
import { startPostgres } from '../../support/servers/postgres.js'
import { until } from '../../support/until.js'
import { inLine, type Peer, peer } from './support/peer.js'

const server = await startPostgres({ settings: { log_statement: 'all' } })
after(() => server.stop())

const flood = 1_000

interface Party {
  readonly attempt: string
  readonly channel: string
}

class Spy {
  readonly #client: Client

  constructor(client: Client) {
    this.#client = client
  }

  /** To one channel, as often as it can for that long. Resolves with how many looks that may lead to. */
  async send(channel: string, texts: readonly string[], ms = 0): Promise<number> {
    const began = performance.now()
    const end = began + ms
    let sent = 0
    do {
      await this.#client.query(`select pg_notify($1, t) from unnest($2::text[]) t`, [channel, texts])
      sent += texts.length
    } while (performance.now() < end || (ms > 0 && sent <= 20))
    // One look at once, one more for what came during it, and one in 25 ms; twice that for a machine that is busy.
    const most = 2 * (2 + (performance.now() - began) / 25)
    return most
  }

  async holder(name: string): Promise<Party> {
    return this.#one('select owner as attempt, channel from holdfast_locks where name = $1', name)
  }

  async waiter(name: string): Promise<Party> {
    return this.#one('select attempt, channel from holdfast_waiters where name = $1', name)
  }

  async #one(text: string, name: string): Promise<Party> {
    const [row] = (await this.#client.query(text, [name])).rows
    assert.ok(row?.channel)
    return row
  }
}

async function spyOn(t: TestContext): Promise<Spy> {
  await server.sql(`do $$ begin create role spy login; exception when duplicate_object then null; end $$`)
  await server.sql('grant select on all tables in schema public to spy')
  const client = new Client({ host: '127.0.0.1', port: server.port, user: 'spy', database: 'postgres' })
  await client.connect()
  t.after(() => client.end())
  await assert.rejects(client.query('delete from holdfast_locks'), { code: '42501' })
  return new Spy(client)
}

/** Two processes that have met: each has its channel, and looks at nothing by itself. */
async function pair(t: TestContext, name: string): Promise<readonly [Peer, Peer]> {
  const both = [peer(t, server.port, { onlyTold: true }), peer(t, server.port, { onlyTold: true })] as const
  for (const [one, other] of [both, [both[1], both[0]]] as const) {
    const lease = await one.locks.mutex(`${name} before`).acquire()
    const waits = other.locks.mutex(`${name} before`).acquire()
    await reachable(`${name} before`)
    await lease.release()
    await (await waits).release()
  }
  return both
}

async function reachable(name: string): Promise<void> {
  const text = 'select from holdfast_waiters where name = $1 and channel is not null'
  await until(async () => (await server.sql(text, [name])).length === 1)
}

/** Statements about locks that the server has got since. */
function counter(): () => number {
  const start = server.log().length
  return () =>
    server
      .log()
      .slice(start)
      .match(/LOG: {2}execute .*holdfast_(acquire|renew|cell_watch|cancel)_v1/g)?.length ?? 0
}

/** What the server would say about an attempt, and what an older version of it would, with the best lease there can be. */
function grantsOf(attempt: string, name: string): string[] {
  const old = `${Number.MAX_SAFE_INTEGER} 0 1 3600000000000 0 ${name}`
  return [`g ${attempt}`, `g ${attempt} ${old}`, `n ${attempt} 0`, `n ${attempt} -1`, `n ${attempt} x`]
}

test('a flood of forged grants to a waiter makes no holder, and the genuine one takes effect', async (t) => {
  const [a, b] = await pair(t, 'grants')
  const spy = await spyOn(t)
  const lease = await a.locks.mutex('grants').acquire({ ttl: 600_000 })
  let entered = false
  const asked = b.locks.mutex('grants').acquire()
  void asked.then(() => {
    entered = true
  })
  await reachable('grants')
  const { channel, attempt } = await spy.waiter('grants')
  const counted = counter()
  const most = await spy.send(channel, grantsOf(attempt, 'grants'), flood)
  await until(() => counted() > 0)
  assert.ok(counted() <= most, `${counted()} statements, at most ${most}`)
  assert.equal(entered, false, 'a second holder')
  assert.ok(lease.isHeld)
  const still = spy.send(channel, grantsOf(attempt, 'grants'), flood)
  await lease.release()
  const next = await asked
  assert.ok(next.token > lease.token && next.token < Number.MAX_SAFE_INTEGER - 10)
  assert.ok(next.remaining() >= 27_000 && next.remaining() <= 30_000, `${next.remaining()} ms of 30,000`)
  await still
  assert.equal((await b.locks.inspect('grants')).holders[0]?.token, next.token)
  assert.equal(await next.release(), 'released')
})

test('a forged grant of another process’s attempt does not make anybody end it', async (t) => {
  const [a, b] = await pair(t, 'of another')
  const spy = await spyOn(t)
  const lease = await a.locks.mutex('of another').acquire({ ttl: 600_000 })
  const asked = b.locks.mutex('of another').acquire()
  await reachable('of another')
  const [holder, waiter] = [await spy.holder('of another'), await spy.waiter('of another')]
  const counted = counter()
  await spy.send(waiter.channel, grantsOf(holder.attempt, 'of another'))
  await spy.send(holder.channel, grantsOf(waiter.attempt, 'of another'))
  // Messages come in their order: this one is answered after those before it.
  await spy.send(waiter.channel, [`g ${waiter.attempt}`])
  await until(() => counted() > 0)
  const { holders, waiters } = await b.locks.inspect('of another')
  assert.deepEqual([holders[0]?.attempt, waiters[0]?.attempt], [holder.attempt, waiter.attempt])
  assert.ok(lease.isHeld)
  assert.equal(await lease.release(), 'released')
  assert.equal(await (await asked).release(), 'released')
})

test('forged revocations lose no lease, and a genuine one among them is reported at once, as revoked', async (t) => {
  const [a, b] = await pair(t, 'revoked')
  const spy = await spyOn(t)
  const lease = await a.locks.mutex('revoked').acquire({ ttl: 600_000 })
  const told: string[] = []
  const lost = new Promise<unknown>((resolve) => {
    lease.signal.addEventListener('abort', () => resolve(lease.signal.reason))
  })
  a.locks.on('lost', ({ why }) => told.push(why))
  const { channel, attempt } = await spy.holder('revoked')
  const counted = counter()
  const forged = [`x ${attempt}`, `c ${attempt}`, `x ${attempt} 1`]
  const most = await spy.send(channel, forged, flood)
  await until(() => counted() > 0)
  assert.ok(counted() <= most, `${counted()} statements, at most ${most}`)
  assert.deepEqual(told, [])
  assert.ok(lease.remaining() > 590_000)
  const still = spy.send(channel, forged, flood)
  assert.equal(await b.locks.forceRelease('revoked'), 1)
  // No renewal is due for minutes.
  assert.ok((await lost) instanceof LeaseLostError)
  assert.deepEqual(told, ['revoked'])
  await still
  assert.equal(lease.state, 'lost')
})

test('forged revocations do not keep a waiter from its turn', async (t) => {
  const [a, b] = await pair(t, 'kept')
  const spy = await spyOn(t)
  const lease = await a.locks.mutex('kept').acquire()
  const asked = b.locks.mutex('kept').acquire()
  await reachable('kept')
  const { channel, attempt } = await spy.waiter('kept')
  const forged = spy.send(channel, [`x ${attempt}`], flood)
  await lease.release()
  const next = await asked
  await forged
  assert.ok(next.isHeld)
  assert.equal(await next.release(), 'released')
})

test('replayed genuine messages, and eight thousand bytes of garbage, have no effect', async (t) => {
  const [a, b] = await pair(t, 'again')
  const spy = await spyOn(t)
  const first = await a.locks.mutex('again').acquire({ ttl: 600_000 })
  const taken = b.locks.mutex('again').acquire()
  await reachable('again')
  const before = await spy.waiter('again')
  await first.release()
  const second = await taken
  const others = a.locks.mutex('again').acquire()
  await inLine(b.locks, 'again', 1)
  await reachable('again')
  const long = 'g'.repeat(7_900)
  const garbage = [
    '',
    ' ',
    'g',
    'g ',
    'n ',
    'x',
    'k ',
    'k',
    '{}',
    long,
    `g ${long}`,
    `k ${long}`,
    `n ${long}`,
  ]
  const counted = counter()
  const { channel, attempt } = await spy.waiter('again')
  for (const to of [before.channel, channel]) {
    await spy.send(to, [`g ${before.attempt}`, `x ${before.attempt}`, ...garbage, `g ${attempt}`])
  }
  await until(() => counted() > 0)
  assert.equal((await b.locks.inspect('again')).holders[0]?.token, second.token)
  assert.ok(second.isHeld)
  assert.equal(await second.release(), 'released')
  assert.equal(await (await others).release(), 'released')
})

test('forged changes of a cell open no latch, and the genuine one takes effect', async (t) => {
  const [a, b] = await pair(t, 'cell')
  const spy = await spyOn(t)
  const latch = a.locks.latch('cell')
  await latch.setCount(1)
  let open = false
  const waits = b.locks.latch('cell').wait()
  void waits.then(() => {
    open = true
  })
  const watchers = () => server.sql('select key, channel from holdfast_watchers')
  const [watcher] = await until(async () => (await watchers()).length > 0 && watchers())
  const counted = counter()
  const forged = [`k ${watcher?.['key']}`]
  const most = await spy.send(String(watcher?.['channel']), forged, flood)
  await until(() => counted() > 0)
  assert.ok(counted() <= most, `${counted()} statements, at most ${most}`)
  assert.equal(open, false)
  const still = spy.send(String(watcher?.['channel']), forged, flood)
  await latch.countDown()
  assert.equal(await waits, true)
  await still
})

after(leakCheck)
