/** `mysql()` on one server, of either kind and with either strategy. */
import type { Flavour } from '../../test/support/servers/mysql.js'
import { clockAhead, clockJump } from './database-servers.js'
import { openLinks } from './links.js'
import { type MysqlPlace, openMysql } from './mysql-client.js'
import { mysqlFaults, startLabServer } from './mysql-servers.js'
import { exhaustPool } from './pool-exhaustion.js'
import { endsSessions } from './sessions.js'
import { type LabDriver, lab } from './store.js'

interface Kind {
  readonly about: string
  readonly flavour: Flavour
  readonly library: MysqlPlace['library']
  readonly strategy: 'row' | 'session'
  readonly leastTtl?: number
}

const page = 'docs/drivers/mysql.md'

export function mysqlLab({ about, flavour, library, strategy, leastTtl }: Kind): LabDriver {
  return lab({
    about,
    ...(leastTtl !== undefined && { leastTtl }),
    client: (place) => openMysql(place as MysqlPlace),
    open: async ({ workers, ttl }) => {
      const server = await startLabServer(flavour)
      const links = await openLinks(workers, [server.port])
      // Bells affect no decision: some workers use them, some do not.
      const place = (n: number, port: number): MysqlPlace => ({
        port,
        library,
        options: { strategy, ...(strategy === 'row' && { wakeWithGetLock: n % 2 === 1 }) },
        // The strategy `session` keeps one connection for its locks and needs another for the rest.
        ...(strategy === 'row' && n % 4 === 2 && { size: 1 }),
      })
      const usual = [...links.faults, ...mysqlFaults(server), clockJump(server, -1, ttl)]
      const faults =
        strategy === 'row'
          ? [...usual, clockAhead(server, ttl, page)]
          : [...usual, clockJump(server, 1, ttl)].map((fault) => endsSessions(fault, ttl, page))
      const [version] = await server.query('select version() v')
      return {
        place: (n) => place(n, links.through(n, server.port)),
        direct: () => openMysql(place(0, server.port)),
        faults: [...faults, exhaustPool(workers)],
        // A forced release ends the connection of the holder, with its other locks.
        ...(strategy === 'session' && { excused: (fault) => endsSessions(fault, ttl, page) }),
        // A dead waiter is skipped after three seconds, a dead holder after its ttl; a lost reply to a statement costs two seconds.
        settles: 2 * ttl + 7_000,
        check: { falseBusy: { lag: 2 * ttl + 4_000 } },
        versions: { [flavour === 'mysql' ? 'MySQL' : 'MariaDB']: String(version?.['v']) },
        close: async () => {
          await links.close()
          await server.stop()
        },
      }
    },
  })
}
