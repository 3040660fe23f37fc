/** `postgres()`, strategy `session`: advisory locks of one connection for each process. */
import { migration } from 'holdfast/postgres'
import { openLinks } from '../links.js'
import { openPostgres, type PostgresPlace, role } from '../postgres-client.js'
import { clockJump, postgresFaults, startLabServer } from '../postgres-servers.js'
import { endsSessions } from '../sessions.js'
import { type LabDriver, lab as made } from '../store.js'
import { strain } from '../strain.js'

export const lab: LabDriver = made({
  about: 'postgres: advisory locks of one server, one connection for each process',
  client: (place) => openPostgres(place as PostgresPlace),
  open: async ({ workers, ttl }) => {
    const server = await startLabServer()
    await server.sql(`create role ${role} login`)
    await server.sql(migration({ role }))
    const links = await openLinks(workers, [server.port])
    const place = (n: number, port: number): PostgresPlace => ({
      port,
      name: `worker ${n}`,
      strategy: 'session',
    })
    const faults = [...links.faults, ...postgresFaults(server), clockJump(server, -1), clockJump(server, 1)]
    return {
      place: (n) => place(n, links.through(n, server.port)),
      direct: () => openPostgres(place(workers, server.port)),
      faults: [
        ...faults.map((fault) => endsSessions(fault, ttl, 'docs/drivers/postgres.md')),
        strain(workers),
      ],
      // Who waits looks every 0.4 s; what is cut off is let go by the server after the longest ttl.
      settles: 2 * ttl + 6_000,
      check: { falseBusy: { lag: 2 * ttl + 2_000 } },
      versions: { PostgreSQL: String((await server.sql('show server_version'))[0]?.['server_version']) },
      close: async () => {
        await links.close()
        await server.stop()
      },
    }
  },
})
