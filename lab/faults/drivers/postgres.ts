/** `postgres()`, strategy `row`: one server, a pool of pg in every process; every second one listens over a pool of its own. */
import { migration } from 'holdfast/postgres'
import { openLinks } from '../links.js'
import { openPostgres, type PostgresPlace, role } from '../postgres-client.js'
import { clockJump, postgresFaults, startLabServer } from '../postgres-servers.js'
import { type Fault, type LabDriver, lab as made } from '../store.js'
import { strain } from '../strain.js'

export const lab: LabDriver = made({
  about: 'postgres: rows of one server, a pool of pg in every process',
  client: (place) => openPostgres(place as PostgresPlace),
  open: async ({ workers, ttl }) => {
    const server = await startLabServer()
    await server.sql(`create role ${role} login`)
    await server.sql(migration({ role }))
    const links = await openLinks(workers, [server.port])
    const place = (n: number, port: number): PostgresPlace => ({
      port,
      name: `worker ${n}`,
      strategy: 'row',
      ear: n % 2 === 1,
    })
    const ahead: Fault = {
      ...clockJump(server, 1),
      excuses: {
        rules: ['exclusion', 'read-write', 'permits'],
        within: ttl,
        why: "a jump forward of the server's own clock can end a lease early (docs/drivers/postgres.md)",
      },
    }
    return {
      place: (n) => place(n, links.through(n, server.port)),
      direct: () => openPostgres(place(workers, server.port)),
      faults: [...links.faults, ...postgresFaults(server), clockJump(server, -1), ahead, strain(workers)],
      // A notification that was lost costs five seconds, a statement without an answer two, a dead holder its ttl, a dead waiter a claim.
      settles: 2 * ttl + 8_000,
      check: { falseBusy: { lag: 2 * ttl + 1_000 } },
      versions: { PostgreSQL: String((await server.sql('show server_version'))[0]?.['server_version']) },
      close: async () => {
        await links.close()
        await server.stop()
      },
    }
  },
})
