/** `etcd()` on three members of the older version, whose leaders answer keepalives even after they have been replaced: a lease for each lock. */
import { startEtcdCluster } from '../../../test/support/servers/etcd.js'
import { memberCables } from '../../../test/support/servers/member-cables.js'
import {
  createAnswerCheck,
  minTtl,
  newLeader,
  openEtcd,
  readVersion,
  retainedAfterDeath,
  revocation,
  settleTime,
  upkeep,
} from '../etcd-lab.js'
import { openLinks } from '../links.js'
import { groupFaults } from '../members.js'
import { partitions } from '../partitions.js'
import { type LabDriver, lab as made } from '../store.js'

export const lab: LabDriver = made({
  about: 'etcd: a cluster of three members, a lease for each lock',
  leastTtl: minTtl,
  client: (ports) => openEtcd(ports as number[], 'lock'),
  open: async ({ workers, ttl }) => {
    const cables = memberCables()
    const cluster = await startEtcdCluster(3, { version: '3.4', cables })
    const { servers } = cluster
    const ports = servers.map(({ port }) => port)
    const links = await openLinks(workers, ports)
    return {
      place: (n) => ports.map((port) => links.through(n, port)),
      direct: () => openEtcd(ports, 'lock'),
      faults: [
        ...links.faults,
        ...links.single,
        ...groupFaults(cluster, [newLeader(cluster), ...partitions({ ...cluster, cables, links }, [0.5, 8])]),
        ...upkeep(servers),
        revocation(servers, ttl),
      ],
      settles: settleTime(ttl, workers),
      answers: createAnswerCheck(servers),
      check: { falseBusy: { lag: retainedAfterDeath(ttl) } },
      versions: { etcd: `${await readVersion(await cluster.leader())}, three members` },
      close: async () => {
        await links.close()
        await cluster.stop()
        await cables.stop()
      },
    }
  },
})
