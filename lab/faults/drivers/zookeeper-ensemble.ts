/** `zookeeper()` on three servers. */
import { type Ensemble, startEnsemble } from '../../../test/support/servers/zookeeper.js'
import { type EnsembleCables, ensembleCables } from '../../../test/support/servers/zookeeper-cables.js'
import { openLinks } from '../links.js'
import { groupFaults } from '../members.js'
import { type Fault, type LabDriver, lab as made } from '../store.js'
import {
  labZookeeper,
  openZookeeper,
  readVersion,
  retainedAfterDeath,
  settleTime,
  syncLimit,
  tickTime,
} from '../zookeeper-lab.js'

/** How many ticks a server waits for the others once it has been elected, or believes so. */
const initLimit = 20
/** Servers without a majority query each other less and less often, down to once a minute: longer than a run. In ms. */
const quickElections = [
  '-Dzookeeper.fastleader.minNotificationInterval=100',
  '-Dzookeeper.fastleader.maxNotificationInterval=500',
  '-Dzookeeper.cnxTimeout=500',
]
/**
 * Minimum interval between two partitions, in ms. A server that was cut off needs this long to rejoin; cutting off another one sooner
 * leaves no majority.
 */
const rest = 6_000

export const lab: LabDriver = made({
  about: 'zookeeper: an ensemble of three servers, a session in every process',
  client: (ports) => openZookeeper(ports as number[]),
  open: async ({ workers, ttl }) => {
    const cables = ensembleCables()
    const ensemble = await startEnsemble({
      ...labZookeeper,
      between: cables.between,
      betweenElections: cables.betweenElections,
      config: [`syncLimit=${syncLimit}`, `initLimit=${initLimit}`],
      properties: [...(labZookeeper.properties ?? []), ...quickElections],
    })
    const ports = ensemble.servers.map(({ port }) => port)
    const links = await openLinks(workers, ports)
    return {
      place: (n) => ports.map((port) => links.through(n, port)),
      direct: () => openZookeeper(ports),
      faults: [...links.faults, ...links.single, ...groupFaults(ensemble, cutOff(ensemble, cables))],
      // Added to this: an election, after the pause of a member has been noticed.
      settles: settleTime(3, ttl, workers) + (syncLimit + initLimit) * tickTime + 2_000,
      check: { falseBusy: { lag: retainedAfterDeath + syncLimit * tickTime } },
      versions: { zookeeper: `${await readVersion(await ensemble.leader())}, three servers` },
      close: async () => {
        await links.close()
        await ensemble.stop()
        await cables.stop()
      },
    }
  },
})

/** Cuts one server off from the others; its clients do not notice. */
function cutOff(ensemble: Ensemble, cables: EnsembleCables): Fault[] {
  const { servers } = ensemble
  const isolate = (server: (typeof servers)[number] | undefined) =>
    server === undefined ? undefined : cables.isolate(servers.indexOf(server))
  const common = { subjects: ['servers'], lasts: [0.5, 5], weight: 2, apart: rest } as const
  return [
    {
      ...common,
      kind: 'follower: cut off with its clients',
      begin: async ({ amount }) => {
        const present = await ensemble.leader()
        const followers = servers.filter((one) => one !== present)
        return isolate(followers[Math.floor(amount * followers.length)])
      },
    },
    {
      ...common,
      kind: 'leader: cut off with its clients',
      begin: async () => isolate(await ensemble.leader()),
    },
  ]
}
