/** `postgres()` on one server, with either strategy. */
import { migration } from 'holdfast/postgres'
import { clockAhead, clockJump } from './database-servers.js'
import { openLinks } from './links.js'
import { exhaustPool } from './pool-exhaustion.js'
import { openPostgres, type PostgresPlace, role } from './postgres-client.js'
import { createReader, forgedNotifications } from './postgres-forger.js'
import { postgresFaults, startLabServer } from './postgres-servers.js'
import { endsSessions } from './sessions.js'
import { type LabDriver, lab } from './store.js'

interface Kind {
  readonly about: string
  readonly strategy: 'row' | 'session'
}

const page = 'docs/drivers/postgres.md'

/** In ms, in addition to two ttls: time until all waiters are served, and how long a claim may be kept after its caller has gone. */
const slow = {
  // A lost notification costs five seconds, a lost reply to a statement two, a dead holder its ttl, a dead waiter a claim.
  row: { settles: 8_000, lag: 1_000 },
  // A waiter polls every 0.4 s; the server drops a cut connection after the longest ttl.
  session: { settles: 6_000, lag: 2_000 },
} as const

export function postgresLab({ about, strategy }: Kind): LabDriver {
  const { settles, lag } = slow[strategy]
  return lab({
    about,
    client: (place) => openPostgres(place as PostgresPlace),
    open: async ({ workers, ttl }) => {
      const server = await startLabServer()
      await server.sql(`create role ${role} login`)
      await server.sql(migration({ role }))
      await createReader(server)
      const links = await openLinks(workers, [server.port])
      const place = (n: number, port: number): PostgresPlace => ({
        ...{ port, name: `worker ${n}`, strategy },
        // Every second worker listens over a separate pool.
        ...(strategy === 'row' && { subscriber: n % 2 === 1, single: n % 4 === 2 }),
      })
      const usual = [...links.faults, ...postgresFaults(server), clockJump(server, -1, ttl)]
      const faults =
        strategy === 'row'
          ? [...usual, clockAhead(server, ttl, page)]
          : [...usual, clockJump(server, 1, ttl)].map((fault) => endsSessions(fault, ttl, page))
      return {
        place: (n) => place(n, links.through(n, server.port)),
        direct: () => openPostgres(place(workers, server.port)),
        faults: [...faults, exhaustPool(workers), forgedNotifications(server)],
        settles: 2 * ttl + settles,
        check: { falseBusy: { lag: 2 * ttl + lag } },
        versions: { PostgreSQL: String((await server.sql('show server_version'))[0]?.['server_version']) },
        close: async () => {
          await links.close()
          await server.stop()
        },
      }
    },
  })
}
