/** `consul()` on one server that keeps its data: a session for each process. */
import { type ConsulServer, startConsulCluster } from '../../../test/support/servers/consul.js'
import {
  createAnswerCheck,
  destruction,
  minTtl,
  openConsul,
  readVersion,
  retainedAfterDeath,
  settleTime,
} from '../consul-lab.js'
import { openLinks } from '../links.js'
import { aloneFaults } from '../members.js'
import { type LabDriver, lab as made } from '../store.js'

export const lab: LabDriver = made({
  about: 'consul: one server, one session for all locks of a process',
  leastTtl: minTtl,
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
      settles: settleTime(ttl, workers),
      answers: createAnswerCheck(servers),
      check: { falseBusy: { lag: retainedAfterDeath(ttl) } },
      versions: { consul: await readVersion(server) },
      close: async () => {
        await links.close()
        await stop()
      },
    }
  },
})
