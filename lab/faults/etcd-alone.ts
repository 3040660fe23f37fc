/** `etcd()` on one server that keeps its data, over JSON or gRPC: a lease for each process. */
import { startEtcd } from '../../test/support/servers/etcd.js'
import {
  createAnswerCheck,
  minTtl,
  openEtcd,
  readVersion,
  retainedAfterDeath,
  revocation,
  settleTime,
  upkeep,
} from './etcd-lab.js'
import { openLinks } from './links.js'
import { aloneFaults } from './members.js'
import { type LabDriver, lab } from './store.js'

export function etcdAlone(protocol: 'JSON' | 'gRPC'): LabDriver {
  const open = (ports: readonly number[]) => openEtcd(ports, 'process', protocol)
  return lab({
    about: `etcd: one server, over ${protocol}, one lease for all locks of a process`,
    leastTtl: minTtl,
    client: (ports) => open(ports as number[]),
    open: async ({ workers, ttl }) => {
      const server = await startEtcd({ version: '3.5' })
      const links = await openLinks(workers, [server.port])
      return {
        place: (n) => [links.through(n, server.port)],
        direct: () => open([server.port]),
        faults: [...links.faults, ...aloneFaults(server), ...upkeep([server]), revocation([server], ttl)],
        settles: settleTime(ttl, workers),
        answers: createAnswerCheck([server]),
        check: { falseBusy: { lag: retainedAfterDeath(ttl) } },
        versions: { etcd: await readVersion(server) },
        close: async () => {
          await links.close()
          await server.stop()
        },
      }
    },
  })
}
