// A server that comes back from an older copy of its data, in which a hold is missing or ends too soon. Nothing is renewed for minutes
// here: what holders hear, they hear because somebody asked.
// Second tier because it makes copies of the data and restores them.
import assert from 'node:assert/strict'
import { after, describe, type TestContext, test } from 'node:test'
import type { Lease, Locks } from 'holdfast'
import type { Library } from '../drivers/mysql/support/clients.js'
import { connections, killAll, peer, statements } from '../drivers/mysql/support/peer.js'
import { leakCheck } from '../support/leaks.js'
import { type Flavour, startMysql } from '../support/servers/mysql.js'
import { until } from '../support/until.js'

const flavours: readonly Flavour[] = ['mariadb', 'mysql']
const libraries: readonly Library[] = ['mysql2', 'mariadb']
const long = 600_000

/** One of each kind. */
const kinds = [
  (locks: Locks, name: string) => locks.mutex(`${name} mutex`),
  (locks: Locks, name: string) => locks.readWrite(`${name} readers`).read,
  (locks: Locks, name: string) => locks.semaphore(`${name} permits`, { permits: 2 }),
] as const

const take = (locks: Locks, name: string, ttl: number): Promise<Lease[]> =>
  Promise.all(kinds.map((kind) => kind(locks, name).acquire({ ttl, wait: 20_000 })))

function lossesOf(locks: Locks): string[] {
  const lost: string[] = []
  locks.on('lost', ({ name }) => lost.push(name))
  return lost
}

for (const flavour of flavours) {
  describe(flavour, async () => {
    const server = await startMysql({ flavour })
    after(() => server.stop())

    /** How often the row of each was written. */
    const versions = async (leases: readonly Lease[]) => {
      const names = leases.map(({ name }) => `'${name}'`).join(', ')
      const rows = await server.query(
        `select version from holdfast_locks where name in (${names}) order by name`,
      )
      return rows.map((row) => Number(row['version']))
    }

    for (const library of libraries) {
      const two = (t: TestContext) =>
        [peer(t, server.port, { library }), peer(t, server.port, { library })] as const

      test(`${library}: holders learn at once which leases the older copy lacks, and the next token is greater`, async (t) => {
        const [a, b] = two(t)
        const lost = lossesOf(a)
        const kept = await take(a, `${library} kept`, long)
        const short = await take(a, `${library} short`, 60_000)
        const before = await versions([...kept, ...short])
        await server.kill9()
        server.copyData()
        await server.restart()
        // Every hold is asked for, and written again.
        const now = () => versions([...kept, ...short])
        await until(async () => (await now()).every((version, i) => version > (before[i] ?? 0)))
        assert.deepEqual(lost, [])

        for (const lease of short) await lease.extend(long)
        const forgotten = await take(a, `${library} forgotten`, long)
        await server.kill9()
        await server.restore()
        await until(() => lost.length === 3, { what: 'the holders of what is forgotten to hear of it' })
        assert.deepEqual(lost.sort(), forgotten.map(({ name }) => name).sort())

        for (const [i, lease] of (await take(b, `${library} forgotten`, long)).entries()) {
          const last = forgotten[i]?.token ?? Number.NaN
          assert.ok(lease.token > last, `${lease.token} after ${last}`)
          await lease.release()
        }
        for (const lease of [...kept, ...short]) {
          assert.ok(lease.isHeld)
          // In the copy it ended after a minute: others would have been let in while it is believed in.
          const ends = async () => (await b.inspect(lease.name)).holders[0]?.expiresIn ?? 0
          await until(async () => (await ends()) > long / 2, {
            what: `${lease.name} to end when its holder thinks`,
          })
        }
        assert.equal(await b.mutex(`${library} kept mutex`).tryAcquire(), undefined)
        for (const lease of [...kept, ...short]) assert.equal(await lease.release(), 'released')
      })

      test(`${library}: a hold that somebody else has in the older copy is lost, and the next token is greater`, async (t) => {
        const [a, b] = two(t)
        const lost = lossesOf(b)
        const name = `${library} passed on`
        const first = await a.mutex(name).acquire({ ttl: long, wait: 20_000 })
        await server.kill9()
        server.copyData()
        await server.restart()
        await until(async () => (await first.release()) !== 'unknown')
        const second = await b.mutex(name).acquire({ ttl: long, wait: 20_000 })
        await server.kill9()
        await server.restore()
        await until(() => lost.length > 0)
        assert.deepEqual(lost, [name])
        // The copy has the hold that was released; nobody is left to end it but an operator.
        assert.equal(await b.mutex(name).tryAcquire(), undefined)
        assert.equal(await b.forceRelease(name), 1)
        const third = await b.mutex(name).acquire({ wait: 20_000 })
        assert.ok(third.token > second.token)
        await third.release()
      })

      test(`${library}: connections of a pool that come and go are no reason to write anything`, async (t) => {
        const [a] = two(t)
        const lost = lossesOf(a)
        const leases = await take(a, `${library} quiet`, long)
        const counts = await statements(server, async () => {
          assert.ok((await killAll(server)) > 0)
          // It has looked which server answers now.
          await until(async () => (await connections(server)).length > 0, { what: 'a new connection' })
          for (const lease of leases) await a.inspect(lease.name)
        })
        assert.equal((counts['update'] ?? 0) + (counts['update_multi'] ?? 0), 0, JSON.stringify(counts))
        assert.deepEqual(lost, [])
        for (const lease of leases) assert.equal(await lease.release(), 'released')
      })

      test(`${library}, session: every hold ends with the server, is told at once, and the next token is greater`, async (t) => {
        const session = { library, strategy: 'session' } as const
        const [a, b] = [peer(t, server.port, session), peer(t, server.port, session)]
        const lost = lossesOf(a)
        const known = await a.mutex(`${library} known`).acquire({ ttl: long, wait: 20_000 })
        await server.kill9()
        server.copyData()
        await server.restart()
        await until(() => lost.length === 1)
        const again = await a.mutex(known.name).acquire({ ttl: long, wait: 20_000 })
        const forgotten = await a.mutex(`${library} ended`).acquire({ ttl: long, wait: 20_000 })
        await server.kill9()
        await until(() => lost.length === 3)
        await server.restore()
        for (const lease of [again, forgotten]) {
          const next = await b.mutex(lease.name).acquire({ wait: 20_000 })
          assert.ok(next.token > lease.token && lease.token >= known.token)
          await next.release()
        }
      })
    }
  })
}

after(leakCheck)
