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
    const next = (i % 2 === 0 ? b : a).mutex(name).acquire()
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

const median = (sorted: readonly number[]) => sorted[Math.floor(sorted.length / 2)] ?? Number.NaN

for (const flavour of ['mariadb', 'mysql'] as const satisfies readonly Flavour[]) {
  describe(`wakeWithGetLock (${flavour})`, { concurrency: false }, () => {
    let server: MysqlServer
    before(async () => {
      server = await startMysql({ flavour })
    })
    after(() => server.stop())

    it('wakes the next without polling, and costs two statements and one connection to keep, one to hear', async (t) => {
      const [a, b] = [
        peer(t, server.port, { wakeWithGetLock: true }),
        peer(t, server.port, { wakeWithGetLock: true }),
      ]
      const [c, d] = [peer(t, server.port), peer(t, server.port)]
      const rung = median(await handOvers(a, b, 'rung', 25))
      const polled = median(await handOvers(c, d, 'polled', 25))
      t.diagnostic(`median of 25: ${rung.toFixed(1)} ms with it, ${polled.toFixed(1)} ms without`)
      // Who is woken does not look meanwhile: so what is quicker than the second between two looks was the notification.
      const looks = async (
        holder: Pick<Locks, 'mutex' | 'inspect'>,
        waiter: Pick<Locks, 'mutex'>,
        meanwhile: () => Promise<unknown>,
      ) => {
        const lease = await holder.mutex('looks').acquire()
        // Nobody waits for that. Who listens before it hears that nobody holds the GET_LOCK, and reads the row.
        if (holder === a) await until(() => bellKept(server, 'looks'))
        const next = waiter.mutex('looks').acquire()
        await until(async () => (await holder.inspect('looks')).waiters.length === 1)
        const { select = 0 } = await statements(server, meanwhile)
        await lease.release()
        await (await next).release()
        return select
      }
      const selects = async () =>
        Number((await server.query(`show global status like 'Com_select'`))[0]?.['Value'])
      const few = await looks(a, b, () => new Promise((resolve) => void setTimeout(resolve, 1_000)))
      // Two a second, and some while the answer of a notification that did not come is late; a poller takes twenty.
      assert.ok(few <= 12, `${few} looks in a second with it`)
      // Without it there are as many as one waits for.
      await looks(c, d, async () => {
        const before = await selects()
        await until(async () => (await selects()) > before + 6, { within: 30_000 })
      })
      assert.ok(rung < 300, `${rung} ms with it, ${polled} ms without`)
      const lock = a.mutex('alone')
      const rings = async () => Number((await server.query(`show global status like 'Com_do'`))[0]?.['Value'])
      const rungBefore = await rings()
      await lock.run(() => undefined)
      // It is rung in the background, and is not to be counted below.
      await until(async () => (await rings()) > rungBefore)
      const hundred = async () => {
        const before = await rings()
        for (let i = 0; i < 50; i++) await (await lock.acquire()).release()
        // Nobody waits for the answers to the last ones.
        await until(async () => (await rings()) >= before + 50)
      }
      const cost = await statements(server, hundred)
      assert.deepEqual({ update: cost['update'], do: cost['do'] }, { update: 100, do: 50 })
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
        waits.push(locks.mutex('line').run(() => void order.push(i), { fair: true }))
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
