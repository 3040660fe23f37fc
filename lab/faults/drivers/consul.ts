/** `consul()` on one server that keeps its data: a session for each process. */
import { type ConsulServer, startConsulCluster } from '../../../test/support/servers/consul.js'
import { answersOf, destruction, keeps, leastTtl, openConsul, settlesOf, versionOf } from '../consul-lab.js'
import { openLinks } from '../links.js'
import { aloneFaults } from '../members.js'
import { type LabDriver, lab as made } from '../store.js'

export const lab: LabDriver = made({
  about: 'consul: one server, one session for all locks of a process',
  leastTtl,
  client: (ports) => openConsul(ports as number[], 'process'),
  open: async ({ workers, ttl }) => {
    // An agent in development mode would lose all data.
    const { servers, stop } = await startConsulCluster(1)
    const server = servers[0] as ConsulServer
    const links = await openLinks(workers, [server.port])
    return {
      place: (n) => [links.through(n, server.port)],
      direct: () => openConsul([server.port], 'process'),
      faults: [...links.faults, ...aloneFaults(server), destruction(servers, ttl)],
      settles: settlesOf(ttl, workers),
      answers: answersOf(servers),
      check: { falseBusy: { lag: keeps(ttl) } },
      versions: { consul: await versionOf(server) },
      close: async () => {
        await links.close()
        await stop()
      },
    }
  },
})
