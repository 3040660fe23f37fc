/** `zookeeper()` on three servers. */
import { startEnsemble } from '../../../test/support/servers/zookeeper.js'
import { openLinks } from '../links.js'
import { groupFaults } from '../members.js'
import { type LabDriver, lab as made } from '../store.js'
import {
  keeps,
  labZookeeper,
  openZookeeper,
  settlesOf,
  syncLimit,
  tickTime,
  versionOf,
} from '../zookeeper-lab.js'

export const lab: LabDriver = made({
  about: 'zookeeper: an ensemble of three servers, a session in every process',
  client: (ports) => openZookeeper(ports as number[]),
  open: async ({ workers, ttl }) => {
    const ensemble = await startEnsemble({
      ...labZookeeper,
      config: [`syncLimit=${syncLimit}`, 'initLimit=50'],
    })
    const ports = ensemble.servers.map(({ port }) => port)
    const links = await openLinks(workers, ports)
    return {
      place: (n) => ports.map((port) => links.through(n, port)),
      direct: () => openZookeeper(ports),
      faults: [...links.faults, ...links.single, ...groupFaults(ensemble)],
      // An election, after those that were paused have been noticed, comes on top.
      settles: settlesOf(3, ttl, workers) + syncLimit * tickTime + 2_000,
      check: { falseBusy: { lag: keeps + syncLimit * tickTime } },
      versions: { zookeeper: `${await versionOf(await ensemble.leader())}, three servers` },
      close: async () => {
        await links.close()
        await ensemble.stop()
      },
    }
  },
})
