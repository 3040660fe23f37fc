// Several locks in one statement: what it costs, and what it waits for: nothing. Run beside the renewals of many, on the same servers.
import assert from 'node:assert/strict'
import { it } from 'node:test'
import { createConnection } from 'mysql2/promise'
import type { Locks } from '../../../../src/create-locks.js'
import type { MysqlServer } from '../../../support/servers/mysql.js'
import { until } from '../../../support/until.js'
import { deadlocks, peer, statements } from './peer.js'

/** So long that nothing is renewed by itself in the middle of a test. */
const ttl = 600_000
const levels = ['read uncommitted', 'read committed', 'repeatable read', 'serializable'] as const

const all = (locks: Locks, names: readonly string[]) => locks.all(names.map((name) => locks.mutex(name)))
const known = async (locks: Locks, names: readonly string[]) => {
  for (const name of names) await locks.mutex(name).run(() => undefined)
}

export function togetherTests(server: () => MysqlServer): void {
  it('are taken by one, over a pool of one connection, and each token is above those of its name', async (t) => {
    const locks = peer(t, server().port, { size: 1, connections: 1 })
    const names = ['one', 'two', 'three']
    await known(locks, names)
    await server().query(`update holdfast_locks set top = top + 3600000000 where name = 'two'`)
    const tops = new Map<string, number>()
    for (const { name, top } of await server().query(
      'select cast(name as char) as name, top from holdfast_locks',
    ))
      tops.set(String(name), Number(top))
    const leases: { name: string; token: number }[] = []
    const take = async () =>
      void leases.push(...((await all(locks, names).tryAcquire({ ttl }))?.leases ?? []))
    assert.deepEqual(await statements(server(), take), { update_multi: 1 })
    assert.equal(leases.length, 3)
    for (const { name, token } of leases)
      assert.ok(token > (tops.get(name) ?? Number.POSITIVE_INFINITY), name)
  })

  it('of every kind are distinguished, also where some have never been used', async (t) => {
    const [a, b] = [peer(t, server().port), peer(t, server().port, { library: 'mariadb' })]
    const of = (locks: Locks) => [
      locks.mutex('kinds, mutex'),
      locks.readWrite('kinds, shelf').read,
      locks.semaphore('kinds, places', { permits: 2 }),
    ]
    const [mutex, ...shared] = of(b)
    const first = await a.all(of(a)).tryAcquire({ ttl })
    assert.ok(first !== undefined && mutex !== undefined)
    assert.equal(await b.all(of(b)).tryAcquire({ ttl }), undefined, 'the mutex is held')
    const beside = await b.all(shared).tryAcquire({ ttl })
    assert.ok(beside !== undefined, 'the others are shared')
    assert.equal(await a.semaphore('kinds, places', { permits: 2 }).tryAcquire(), undefined)
    await first.extend()
    await first.release()
    await (await mutex.acquire({ ttl })).release()
    assert.equal((await a.inspect('kinds, shelf')).holders.length, 1)
    assert.equal(await beside.release(), 'released')
  })

  it('are not reported as taken because a row is locked for a moment, and lock no other row meanwhile', async (t) => {
    const locks = peer(t, server().port, { commandTimeout: 60_000 })
    const names = ['busy a', 'busy b', 'busy c']
    await known(locks, names)
    const stranger = await createConnection(server().url)
    t.after(() => stranger.destroy())
    await stranger.query('begin')
    await stranger.query(`select * from holdfast_locks where name = 'busy b' for update`)
    const tried = async () => {
      const [row] = await server().query(`show global status like 'Com\\_update\\_multi'`)
      return Number(row?.['Value'])
    }
    const before = await tried()
    const asked = all(locks, names).tryAcquire({ ttl })
    await until(async () => (await tried()) >= before + 3, { what: 'three tries' })
    // Of its own each is a transaction, and waits for as long as somebody keeps its row.
    for (const name of ['busy a', 'busy c'])
      await server().query(`select * from holdfast_locks where name = '${name}' for update`)
    await stranger.query('commit')
    const lease = await asked
    assert.equal(lease?.leases.length, 3)
    await lease?.release()
    // A lock that was free at the request, and is taken once the row is unlocked, is not taken from its holder.
    await stranger.query('begin')
    await stranger.query(
      `update holdfast_locks set kind = 'x', owner = 'stranger', until = until + 9e15, version = version + 1 where name = 'busy b'`,
    )
    const since = await tried()
    const late = all(locks, names).tryAcquire({ ttl })
    await until(async () => (await tried()) >= since + 3, { what: 'three tries' })
    await stranger.query('commit')
    assert.equal(await late, undefined)
    assert.equal((await locks.inspect('busy b')).holders[0]?.attempt, 'stranger')
  })

  it('by sixteen clients, in any order and beside single ones, at every isolation level: no deadlock, nobody beside another', async (t) => {
    const names = ['p', 'q', 'r', 's']
    const clients = Array.from({ length: 16 }, (_, i) => {
      const locks = peer(t, server().port, { size: 2, level: levels[i % 4] ?? 'serializable' })
      return { locks, i }
    })
    await known(peer(t, server().port), names)
    const before = await deadlocks(server())
    const inside = new Set<string>()
    const visit = async (mine: readonly string[]) => {
      for (const name of mine) {
        assert.equal(inside.has(name), false, `two are inside ${name}`)
        inside.add(name)
      }
      await new Promise(setImmediate)
      for (const name of mine) inside.delete(name)
    }
    await Promise.all(
      clients.map(async ({ locks, i }) => {
        for (let round = 0; round < 4; round++) {
          const turned = names.map((_, at) => names[(at * (i % 2 === 0 ? 1 : 3) + i + round) % 4] as string)
          const mine = turned.slice(0, round === 3 ? 1 : 2 + (i % 2))
          const wait = Number.POSITIVE_INFINITY
          if (mine.length === 1) await locks.mutex(mine[0] as string).run(() => visit(mine), { wait })
          else if (round === 2) {
            const lease = await all(locks, mine).tryAcquire()
            if (lease !== undefined) await visit(mine)
            await lease?.release()
          } else await all(locks, mine).run(() => visit(mine), { wait })
        }
      }),
    )
    assert.equal(await deadlocks(server()), before)
  })
}
