// A server that comes back from an older base backup, in which a hold is missing or ends too soon. Nothing is renewed for minutes here: what
// holders hear, they hear because somebody asked.
// Second tier because it makes base backups and restores them.
import assert from 'node:assert/strict'
import { after, describe, type TestContext, test } from 'node:test'
import { createLocks, type Lease, type Locks } from 'holdfast'
import { driverOn, type Library, type Options } from '../drivers/postgres/support/clients.js'
import { leakCheck } from '../support/leaks.js'
import { startPostgres } from '../support/servers/postgres.js'
import { until } from '../support/until.js'

const server = await startPostgres()
after(() => server.stop())
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

const libraries: readonly Library[] = ['pg', 'postgres.js']
const ways: readonly (readonly [Library, Options])[] = libraries.flatMap((library) => [
  [library, {}],
  [library, { listen: false }],
])

for (const [library, options] of ways) {
  const way = `${library} ${JSON.stringify(options)}`
  const two = (t: TestContext): readonly [Locks, Locks] => {
    const one = () => createLocks(driverOn(library, server.port, options))
    const both = [one(), one()] as const
    t.after(async () => {
      for (const locks of both) await locks.close()
    })
    return both
  }

  describe(way, () => {
    test('holders learn at once which leases the older backup lacks, and the next token is greater', async (t) => {
      const [a, b] = two(t)
      const lost = lossesOf(a)
      const kept = await take(a, `${way} kept`, long)
      const short = await take(a, `${way} short`, 60_000)
      await server.backUp()
      for (const lease of short) await lease.extend(long)
      const forgotten = await take(a, `${way} forgotten`, long)
      await server.restore()
      await until(() => lost.length === 3, { what: 'the holders of what is forgotten to hear of it' })
      assert.deepEqual(lost.sort(), forgotten.map(({ name }) => name).sort())

      for (const [i, lease] of (await take(b, `${way} forgotten`, long)).entries()) {
        const last = forgotten[i]?.token ?? Number.NaN
        assert.ok(lease.token > last, `${lease.token} after ${last}`)
        await lease.release()
      }
      for (const lease of [...kept, ...short]) {
        assert.ok(lease.isHeld)
        // In the backup it ends after a minute: others would be let in while it is believed in.
        const ends = async () => (await b.inspect(lease.name)).holders[0]?.expiresIn ?? 0
        await until(async () => (await ends()) > long / 2, {
          what: `${lease.name} to end when its holder thinks`,
        })
      }
      assert.equal(await b.mutex(`${way} kept mutex`).tryAcquire(), undefined)
      for (const lease of [...kept, ...short]) assert.equal(await lease.release(), 'released')
    })

    test('a hold that somebody else has in the older backup is lost, and the next token is greater', async (t) => {
      const [a, b] = two(t)
      const lost = lossesOf(b)
      const name = `${way} passed on`
      const first = await a.mutex(name).acquire({ ttl: long, wait: 20_000 })
      await server.backUp()
      assert.equal(await first.release(), 'released')
      const second = await b.mutex(name).acquire({ ttl: long, wait: 20_000 })
      await server.restore()
      await until(() => lost.length > 0)
      assert.deepEqual(lost, [name])
      // The backup has the hold that was released; nobody is left to end it but an operator.
      assert.equal(await b.mutex(name).tryAcquire(), undefined)
      assert.equal(await b.forceRelease(name), 1)
      const third = await b.mutex(name).acquire({ wait: 20_000 })
      assert.ok(third.token > second.token)
      await third.release()
    })
  })
}

describe('a backup that is older than the schema', () => {
  for (const library of libraries) {
    test(`${library}: holders hear of it, and the tables are made again`, async (t) => {
      await server.sql(`do $$ declare f record; begin
        for f in select oid::regprocedure as name from pg_proc where proname like 'holdfast_%' loop
          execute 'drop function ' || f.name || ' cascade'; end loop;
        for f in select relname as name from pg_class where relname like 'holdfast_%' and relkind = 'r' loop
          execute 'drop table ' || f.name || ' cascade'; end loop; end $$`)
      await server.backUp()
      const locks = createLocks(driverOn(library, server.port))
      t.after(() => locks.close())
      const lost = lossesOf(locks)
      const lease = await locks.mutex('made').acquire({ ttl: long, wait: 20_000 })
      await server.restore()
      await until(() => lost.length > 0)
      const next = await locks.mutex('made').acquire({ wait: 20_000 })
      assert.ok(next.token > lease.token)
      await next.release()
    })
  }
})

describe('session', () => {
  test('every hold ends with the server, is reported at once, and the next token is greater', async (t) => {
    const one = () => createLocks(driverOn('pg', server.port, { strategy: 'session' }))
    const [a, b] = [one(), one()]
    t.after(async () => {
      await a.close()
      await b.close()
    })
    const lost = lossesOf(a)
    const known = await a.mutex('known').acquire({ ttl: long, wait: 20_000 })
    await server.backUp()
    const forgotten = await a.mutex('ended').acquire({ ttl: long, wait: 20_000 })
    await server.restore()
    await until(() => lost.length === 2)
    for (const lease of [known, forgotten]) {
      const next = await b.mutex(lease.name).acquire({ wait: 20_000 })
      assert.ok(next.token > lease.token)
      await next.release()
    }
  })
})

after(leakCheck)
