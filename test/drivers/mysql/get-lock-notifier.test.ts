// Runs alone because it measures how long a hand-over takes.
// Second tier because it needs the machine for itself.
// wakeWithGetLock: wakes the next waiter at once, and is never needed.
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import type { Locks } from 'holdfast'
import { leakCheck } from '../../support/leaks.js'
import { type Flavour, type MysqlServer, startMysql } from '../../support/servers/mysql.js'
import { until } from '../../support/until.js'
import { connections, killAll, peer, statements } from './support/peer.js'

/** Nothing here is about how long a wait lasts. */
const untilServed = Number.POSITIVE_INFINITY

/** Hands a lock to and fro; ms of each hand-over, sorted. */
async function handOvers(
  a: Pick<Locks, 'mutex' | 'inspect'>,
  b: Pick<Locks, 'mutex'>,
  name: string,
  count: number,
): Promise<readonly number[]> {
  const took: number[] = []
  let lease = await a.mutex(name).acquire()
  for (let i = 0; i < count; i++) {
    const next = (i % 2 === 0 ? b : a).mutex(name).acquire({ wait: untilServed })
    await until(async () => (await a.inspect(name)).waiters.length === 1, { every: 5 })
    // Long enough for a poller to have reached its longest pause.
    await new Promise((resolve) => setTimeout(resolve, 120 + 7 * (i % 9)))
    const begin = performance.now()
    const [granted] = await Promise.all([next, lease.release()])
    took.push(performance.now() - begin)
    lease = granted
  }
  await lease.release()
  return took.sort((x, y) => x - y)
}

async function bellKept(server: MysqlServer, name: string): Promise<boolean> {
  const [row] = await server.query(
    `select is_used_lock(concat('hb', left(sha2(concat(database(), '.holdfast_locks.', hex('${name}')), 256), 60))) as id`,
  )
  return Number(row?.['id'] ?? 0) > 0
}

/** How many GET_LOCKs were released. */
const rings = async (server: MysqlServer) =>
  Number((await server.query(`show global status like 'Com_do'`))[0]?.['Value'])

/** From a holder whose GET_LOCK is kept to a waiter that waits for it. */
async function handOver(server: MysqlServer, a: Locks, b: Locks, name: string): Promise<void> {
  const lease = await a.mutex(name).acquire()
  await until(() => bellKept(server, name))
  const next = b.mutex(name).acquire({ wait: untilServed })
  const listening = `select 1 from information_schema.processlist where info like 'SELECT GET\\_LOCK(%'`
  await until(async () => (await server.query(listening)).length === 1)
  await lease.release()
  await (await next).release()
}

const median = (sorted: readonly number[]) => sorted[Math.floor(sorted.length / 2)] ?? Number.NaN

for (const flavour of ['mariadb', 'mysql'] as const satisfies readonly Flavour[]) {
  describe(`wakeWithGetLock (${flavour})`, { concurrency: false }, () => {
    let server: MysqlServer
    before(async () => {
      server = await startMysql({ flavour })
    })
    after(() => server.stop())

    it('wakes the next as the holder releases', async (t) => {
      const [a, b] = [
        peer(t, server.port, { wakeWithGetLock: true }),
        peer(t, server.port, { wakeWithGetLock: true }),
      ]
      const before = await rings(server)
      let rounds = 0
      // Both holders give their GET_LOCK back, and so does the waiter, unless a stall has used up the second that it waits for one.
      await until(async () => {
        rounds++
        await handOver(server, a, b, `woken ${rounds}`)
        return (await rings(server)) > before + 2 * rounds
      })
    })

    it('costs two statements and one connection to keep, one to hear', async (t) => {
      const lock = peer(t, server.port, { wakeWithGetLock: true }).mutex('alone')
      const before = await rings(server)
      await lock.run(() => undefined)
      // It is rung in the background, and is not to be counted below.
      await until(async () => (await rings(server)) > before)
      const hundred = async () => {
        const before = await rings(server)
        for (let i = 0; i < 50; i++) await (await lock.acquire()).release()
        // Nobody waits for the answers to the last ones.
        await until(async () => (await rings(server)) >= before + 50)
      }
      const cost = await statements(server, hundred)
      assert.deepEqual({ update: cost['update'], do: cost['do'] }, { update: 100, do: 50 })
    })

    it('is measured beside polling', async (t) => {
      const pairs = [{ wakeWithGetLock: true }, {}].map((options) => [
        peer(t, server.port, options),
        peer(t, server.port, options),
      ])
      const medians: string[] = []
      for (const [i, [a, b]] of pairs.entries()) {
        assert.ok(a !== undefined && b !== undefined)
        medians.push(median(await handOvers(a, b, `measured ${i}`, 25)).toFixed(1))
      }
      t.diagnostic(`medians of 25: ${medians[0]} ms with it, ${medians[1]} ms without`)
    })

    it('is not needed: killed connections, one that never rings, one that hears nothing', async (t) => {
      const [a, b] = [
        peer(t, server.port, { wakeWithGetLock: true }),
        peer(t, server.port, { wakeWithGetLock: true }),
      ]
      const deaf = peer(t, server.port)
      const lease = await a.mutex('fallback').acquire({ ttl: 120_000 })
      const next = b.mutex('fallback').acquire({ wait: 60_000 })
      await until(async () => (await deaf.inspect('fallback')).waiters.length === 1)
      await killAll(server)
      await lease.release()
      const second = await next
      const third = deaf.mutex('fallback').acquire({ wait: 60_000 })
      await until(async () => (await a.inspect('fallback')).waiters.length === 1)
      await second.release()
      const held = await third
      const fourth = a.mutex('fallback').acquire({ wait: 60_000 })
      await until(async () => (await deaf.inspect('fallback')).waiters.length === 1)
      await held.release()
      await (await fourth).release()
    })

    it('serves a line of eight in order, each served once', async (t) => {
      const clients = Array.from({ length: 8 }, () =>
        peer(t, server.port, { wakeWithGetLock: true, size: 6 }),
      )
      const [first] = clients
      assert.ok(first !== undefined)
      const lease = await first.mutex('line').acquire({ fair: true })
      const order: number[] = []
      const waits: Promise<void>[] = []
      for (const [i, locks] of clients.entries()) {
        waits.push(locks.mutex('line').run(() => void order.push(i), { fair: true, wait: untilServed }))
        await until(async () => (await first.inspect('line')).waiters.length === i + 1)
      }
      await lease.release()
      await Promise.all(waits)
      assert.deepEqual(order, [0, 1, 2, 3, 4, 5, 6, 7])
      const before = await connections(server)
      assert.ok(before.length < 8 * 6 + 20)
    })
  })
}

after(leakCheck)
