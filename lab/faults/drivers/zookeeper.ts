/** `zookeeper()` on one server that keeps its data. */
import { startZookeeper } from '../../../test/support/servers/zookeeper.js'
import { openLinks } from '../links.js'
import { aloneFaults } from '../members.js'
import { type LabDriver, lab as made } from '../store.js'
import { labZookeeper, openZookeeper, readVersion, retainedAfterDeath, settleTime } from '../zookeeper-lab.js'

export const lab: LabDriver = made({
  about: 'zookeeper: one server, a session in every process',
  client: (ports) => openZookeeper(ports as number[]),
  open: async ({ workers, ttl }) => {
    const server = await startZookeeper(labZookeeper)
    const links = await openLinks(workers, [server.port])
    return {
      place: (n) => [links.through(n, server.port)],
      direct: () => openZookeeper([server.port]),
      faults: [...links.faults, ...aloneFaults(server)],
      settles: settleTime(1, ttl, workers),
      check: { falseBusy: { lag: retainedAfterDeath } },
      versions: { zookeeper: await readVersion(server) },
      close: async () => {
        await links.close()
        await server.stop()
      },
    }
  },
})
