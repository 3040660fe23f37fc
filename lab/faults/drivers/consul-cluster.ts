/** `consul()` on three servers: a session for each lock. */
import { startConsulCluster } from '../../../test/support/servers/consul.js'
import { memberCables } from '../../../test/support/servers/member-cables.js'
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
import { groupFaults } from '../members.js'
import { partitions } from '../partitions.js'
import { type LabDriver, lab as made } from '../store.js'

export const lab: LabDriver = made({
  about: 'consul: three servers, a session for each lock',
  leastTtl: minTtl,
  client: (ports) => openConsul(ports as number[], 'lock'),
  open: async ({ workers, ttl }) => {
    const cables = memberCables()
    const cluster = await startConsulCluster(3, { cables })
    const { servers } = cluster
    const ports = servers.map(({ port }) => port)
    const links = await openLinks(workers, ports)
    return {
      place: (n) => ports.map((port) => links.through(n, port)),
      direct: () => openConsul(ports, 'lock'),
      faults: [
        ...links.faults,
        ...links.single,
        ...groupFaults(cluster, partitions({ ...cluster, cables, links }, [1, 14])),
        destruction(servers, ttl),
      ],
      settles: settleTime(ttl, workers),
      answers: createAnswerCheck(servers),
      check: { falseBusy: { lag: retainedAfterDeath(ttl) } },
      versions: { consul: `${await readVersion(await cluster.leader())}, three servers` },
      close: async () => {
        await links.close()
        await cluster.stop()
        await cables.stop()
      },
    }
  },
})
