// Every client at the oldest version of its range, at one that most people run, and at the newest; with the options people set.
// Second tier because it repeats for other versions of the clients what the others show.
import assert from 'node:assert/strict'
import { after, describe, type TestContext, test } from 'node:test'
import { createLocks, type Locks } from '../../src/create-locks.js'
import { type PostgresOptions, type PostgresPool, postgres } from '../../src/drivers/postgres/index.js'
import { inLine, terminateAll } from '../drivers/postgres/support/peer.js'
import { leakCheck } from '../support/leaks.js'
import { startPostgres } from '../support/servers/postgres.js'
import { until } from '../support/until.js'

const server = await startPostgres()
after(() => server.stop())
await server.sql('select 1')
const login = { host: '127.0.0.1', port: server.port, user: 'postgres', database: 'postgres' }

interface Client {
  readonly pool: PostgresPool
  close(): Promise<unknown>
}

/** Makes a client; `more`: options of its own. */
type Open = (more?: object) => Promise<Client>

const pg =
  (module: string): Open =>
  async (more) => {
    const { default: library } = await import(module)
    const pool = new library.Pool({ ...login, ...more })
    pool.on('error', () => undefined)
    return { pool, close: () => pool.end() }
  }

const postgresJs =
  (module: string): Open =>
  async (more) => {
    const { default: library } = await import(module)
    const quiet = { onnotice: () => undefined, backoff: () => 0.05, fetch_types: false }
    const sql = library({ ...login, max: 3, ...quiet, ...more })
    const close = async () => {
      // An end in the middle of a reconnection leaves postgres.js with a connection that nothing closes.
      await sql`select 1`
      const { unlisten } = await sql.listen('closing', () => undefined)
      await unlisten()
      await sql.end({ timeout: 0 })
    }
    return { pool: sql, close }
  }

/** 3.0 replaces its connections however it is told not to. */
const sessionOf = (module: string): Kind => ({
  name: `${module}, session`,
  open: () => postgresJs(module)(own),
  options: { strategy: 'session' },
})

interface Kind {
  readonly name: string
  readonly open: () => Promise<Client>
  readonly options?: Partial<PostgresOptions>
}

const own = { max: 1, max_lifetime: null }
const bigints = { bigint: { to: 20, from: [20], parse: BigInt, serialize: String } }
const upper = { column: (name: string) => name.toUpperCase(), value: (value: unknown) => value }

const kinds: readonly Kind[] = [
  ...['pg-8.0', 'pg-8.16', 'pg'].flatMap((module): Kind[] => [
    { name: `${module}, row`, open: () => pg(module)() },
    { name: `${module}, session`, open: () => pg(module)(), options: { strategy: 'session' } },
    { name: `${module}, a pool of 1`, open: () => pg(module)({ max: 1 }) },
  ]),
  ...['postgres-3.0', 'postgres-3.4.5', 'postgres'].flatMap((module): Kind[] => [
    { name: `${module}, row`, open: () => postgresJs(module)() },
    ...(module === 'postgres-3.0' ? [] : [sessionOf(module)]),
    { name: `${module}, one connection`, open: () => postgresJs(module)({ max: 1 }) },
    { name: `${module}, prepare: false`, open: () => postgresJs(module)({ prepare: false }) },
    { name: `${module}, bigints`, open: () => postgresJs(module)({ types: bigints }) },
    { name: `${module}, transform`, open: () => postgresJs(module)({ transform: upper }) },
  ]),
  {
    name: 'pg, types of its own',
    open: () => pg('pg')({ types: { getTypeParser: () => (text: string) => ({ parsed: text }) } }),
  },
]

async function peerOf(t: TestContext, { open, options }: Kind): Promise<Locks> {
  const { pool, close } = await open()
  const locks = createLocks(postgres({ pool, ...options } as PostgresOptions))
  t.after(async () => {
    await locks.close()
    await close()
  })
  return locks
}

for (const kind of kinds) {
  describe(kind.name, () => {
    const name = kind.name

    test('waits, and is handed the lock with its whole ttl', async (t) => {
      const [a, b] = [await peerOf(t, kind), await peerOf(t, kind)]
      const ttl = 600_000
      for (let i = 0; i < 3; i++) {
        const lease = await a.mutex(name).acquire({ ttl, wait: 60_000 })
        const next = b.mutex(name).acquire({ ttl, wait: 60_000 })
        await inLine(a, name, 1)
        assert.equal(await lease.release(), 'released')
        const second = await next
        assert.ok(second.token > lease.token && second.remaining() >= 0.9 * ttl, `${second.remaining()} ms`)
        assert.equal(await second.release(), 'released')
      }
    })

    test('continues when every connection was killed, holding or waiting', async (t) => {
      const [a, b] = [await peerOf(t, kind), await peerOf(t, kind)]
      const lease = await a.mutex(name).acquire({ wait: 20_000 })
      const next = b.mutex(name).acquire({ wait: 60_000 })
      await inLine(a, name, 1)
      await terminateAll(server)
      if (kind.options?.strategy === 'session')
        await until(() =>
          lease.extend().then(
            () => false,
            () => !lease.isHeld,
          ),
        )
      else {
        await until(() =>
          lease.extend().then(
            () => true,
            () => false,
          ),
        )
        await until(async () => (await lease.release()) !== 'unknown')
      }
      const second = await next
      assert.ok(second.token > lease.token)
      assert.equal(await second.release(), 'released')
    })

    test('is notified when its lock was taken by force', async (t) => {
      const [a, b] = [await peerOf(t, kind), await peerOf(t, kind)]
      const lease = await a.mutex(name).acquire({ wait: 20_000 })
      if (kind.options?.strategy === 'session') return assert.equal(await lease.release(), 'released')
      // Whoever is waited for listens.
      const next = b.mutex(name).acquire({ wait: 20_000 })
      await inLine(a, name, 1)
      assert.equal(await b.forceRelease(name), 1)
      await (await next).release()
      await until(() =>
        lease.extend().then(
          () => false,
          () => !lease.isHeld,
        ),
      )
      assert.equal(lease.state, 'lost')
    })
  })
}

test('strategy session over postgres.js 3.0, which replaces its connections, is refused', async (t) => {
  const { pool, close } = await postgresJs('postgres-3.0')(own)
  t.after(close)
  assert.throws(() => postgres({ pool, strategy: 'session' }), /make an instance of its own for it/)
})

describe('a connection that comes back', () => {
  for (const options of [{}, { listen: false }] as const) {
    test(`checks every hold at once: a server with older data may have replied (${JSON.stringify(options)})`, async (t) => {
      const locks = await peerOf(t, { name: 'back', open: () => pg('pg')(), options })
      const [lease, lasting] = [
        await locks.mutex('forgotten').acquire({ ttl: 600_000 }),
        await locks.mutex('known').acquire({ ttl: 600_000 }),
      ]
      const lost: string[] = []
      locks.on('lost', ({ name }) => lost.push(name))
      // What an asynchronous standby had not got when it was promoted.
      await server.sql(`delete from holdfast_locks where name = 'forgotten'`)
      assert.ok(lease.isHeld)
      await terminateAll(server)
      // No renewal is due for minutes.
      await until(() => lost.length > 0, { within: 5_000 })
      assert.deepEqual(lost, ['forgotten'])
      assert.ok(lasting.isHeld)
      assert.equal(await lasting.release(), 'released')
    })
  }
})

after(leakCheck)
