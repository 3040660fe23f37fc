// A reply that arrives while the event loop is blocked counts, although every time limit has passed when the loop goes on.
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { Redis } from 'ioredis'
import { Pool } from 'pg'
import { type Clock, systemClock } from '../../src/core/clock.js'
import { Engine, systemEnv } from '../../src/core/engine.js'
import { locksOver } from '../../src/create-locks.js'
import { local } from '../../src/drivers/local/index.js'
import { memory } from '../../src/drivers/memory/index.js'
import { postgres } from '../../src/drivers/postgres/index.js'
import { redis } from '../../src/drivers/redis/index.js'
import { zookeeper } from '../../src/drivers/zookeeper/index.js'
import { AcquireTimeoutError, createLocks, type DriverFactory } from '../../src/index.js'
import { leakCheck } from '../support/leaks.js'
import { startProxy } from '../support/proxy.js'
import { startPostgres } from '../support/servers/postgres.js'
import { startRedis } from '../support/servers/redis.js'
import { startZookeeper } from '../support/servers/zookeeper.js'
import { duringStall } from './support/stalled-loop.js'

/** The time limits that are set. None of them passes by itself. */
function heldClock(): { readonly clock: Clock; readonly due: () => void } {
  const set = new Set<() => void>()
  const at: Clock['at'] = (_at, fn) => {
    const one = () => fn()
    set.add(one)
    return () => void set.delete(one)
  }
  const due = () => {
    for (const one of [...set]) one()
  }
  return { clock: { ...systemClock(), at }, due }
}

interface Opened {
  readonly driver: DriverFactory
  readonly end: () => unknown
}

/** Extends a lease, and asks for the health of the store. */
async function counts(serverPort: number, open: (port: number) => Opened): Promise<void> {
  await using proxy = await startProxy({ port: serverPort })
  const { driver, end } = open(proxy.port)
  await using _ = { [Symbol.asyncDispose]: async () => void (await end()) }
  const { clock, due } = heldClock()
  await using locks = locksOver(new Engine(driver, { ttl: 60_000 }, { ...systemEnv(), clock }))
  const lease = await locks.mutex('kept').acquire({ autoRenew: false })
  assert.ok((await lease.extend(70_000)) > 60_000)
  assert.ok((await duringStall(proxy, due, () => lease.extend(80_000))) > 70_000)
  assert.deepEqual([lease.state, lease.ttl], ['held', 80_000])
  assert.equal(await lease.release(), 'released')
  assert.equal((await duringStall(proxy, due, () => locks.health())).status, 'ok')
}

test('redis', async () => {
  await using server = await startRedis()
  await counts(server.port, (port) => {
    const client = new Redis(port, '127.0.0.1')
    return { driver: redis({ client, maxTtl: 100_000 }), end: () => client.disconnect() }
  })
})

test('postgres', async () => {
  await using server = await startPostgres()
  await counts(server.port, (port) => {
    const pool = new Pool({ host: '127.0.0.1', port, user: 'postgres', database: 'postgres' })
    return { driver: postgres({ pool }), end: () => pool.end() }
  })
})

/** Nothing of this process runs for `ms`. */
function stall(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
}

/** An event loop that is blocked for longer than the wait neither makes the store a silent one nor a busy lock a failing store. */
async function waits(wait: number, open: () => Opened): Promise<void> {
  const { driver, end } = open()
  await using _ = { [Symbol.asyncDispose]: async () => void (await end()) }
  await using locks = createLocks(driver)
  await using others = createLocks(driver)
  assert.equal(await (await locks.mutex('first').acquire()).release(), 'released')

  const free = locks.mutex('stalled').acquire({ wait })
  stall(wait + 50)
  const lease = await free
  assert.ok(lease.remaining() >= 0.9 * lease.ttl)

  const held = others.mutex('stalled').acquire({ wait })
  stall(wait + 50)
  await assert.rejects(held, AcquireTimeoutError)
  assert.equal(await lease.release(), 'released')

  const closed = locks.latch('stalled')
  await closed.setCount(1)
  const opened = closed.wait({ wait })
  stall(wait + 50)
  assert.equal(await opened, false)
}

test('a wait on memory', () => waits(1, () => ({ driver: memory(), end: () => undefined })))

test('a wait on local', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'holdfast-stalled-'))
  await using _ = { [Symbol.asyncDispose]: () => rm(directory, { recursive: true }) }
  await waits(1_000, () => ({ driver: local({ directory }), end: () => undefined }))
})

test('a wait on redis', async () => {
  await using server = await startRedis()
  await waits(1_000, () => {
    const client = new Redis(server.port, '127.0.0.1')
    return { driver: redis({ client }), end: () => client.disconnect() }
  })
})

test('a wait on postgres', async () => {
  await using server = await startPostgres()
  await waits(1_000, () => {
    const pool = new Pool({ host: '127.0.0.1', port: server.port, user: 'postgres', database: 'postgres' })
    return { driver: postgres({ pool }), end: () => pool.end() }
  })
})

test('zookeeper: a server that gets a request only after a block does not count as silent', async () => {
  const server = await startZookeeper()
  await using _ = { [Symbol.asyncDispose]: () => server.stop() }
  await using locks = createLocks(
    zookeeper({ servers: server.address, sessionTimeout: 9_000, tickTime: 500 }),
  )
  assert.equal((await locks.health()).status, 'ok')
  for (let n = 0; n < 5; n++) {
    const asked = locks.health()
    // A message may be unanswered for a sixth of the session.
    stall(1_600)
    const { status, error } = await asked
    assert.equal(status, 'ok', String(error))
  }
})

after(leakCheck)
