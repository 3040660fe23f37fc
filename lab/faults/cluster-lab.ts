/** Shared by the lab's Clusters with replicas: partitioned masters, replaced by their replicas. */
import { memberCables } from '../../test/support/servers/member-cables.js'
import { startCluster } from '../../test/support/servers/redis-cluster.js'
import { describeAnswers } from './describe-store.js'
import { openLinks } from './links.js'
import { linkNames, listCuts } from './partitions.js'
import { clusterAnswers } from './redis-answers.js'
import { natMap, openRedis, type RedisPlace } from './redis-client.js'
import { forgedMessages } from './redis-forger.js'
import { harmlessFaults, labServer, subjectNames } from './redis-servers.js'
import { slotMoves } from './slot-moves.js'
import { type Excuse, type Fault, type LabDriver, lab as made } from './store.js'

export interface ClusterLab {
  readonly about: string
  readonly options?: RedisPlace['options']
  /** Duration of faults on a single node, as shares of the ttl. If longer than the node timeout, the node is replaced. */
  readonly lasts: readonly [least: number, most: number]
  /** What a master may do that wakes after it was replaced. */
  readonly woken?: (ttl: number) => readonly Excuse[]
}

/** ms. A node silent for this long is replaced; one that sees no majority for this long refuses requests. */
const nodeTimeout = 1_000

export function clusterLab({ about, options, lasts, woken = () => [] }: ClusterLab): LabDriver {
  return made({
    about,
    client: (place) => openRedis(place as RedisPlace),
    open: async ({ workers, ttl }) => {
      const cables = memberCables()
      const setup = await startCluster({
        ...labServer,
        persistence: 'aof-always',
        replicas: 1,
        nodeTimeout,
        cables,
      })
      const ports = setup.nodes.map(({ port }) => port)
      const links = await openLinks(workers, ports)
      const place = (more: Partial<RedisPlace>): RedisPlace => ({
        is: 'cluster',
        hosts: ports.map((port, n) => ({ host: cables.address(n), port })),
        options: { maxTtl: ttl, ...options },
        ...more,
      })
      const excuses = woken(ttl)
      const cuts = listCuts({ servers: setup.nodes, cables, links }).map(
        ({ kind, weight = 1, begin }): Fault => ({
          kind: `master: ${kind}`,
          subjects: ['cluster'],
          also: [...subjectNames(setup.nodes), ...linkNames(links, ports.length)],
          lasts: [0.5, 8],
          apart: 3_000,
          family: 'partition',
          weight: 3 * weight,
          excuses: kind.startsWith('paused') ? excuses : [],
          begin: async (act) => {
            const masters = await setup.settled()
            const master = masters[Math.floor(act.amount * masters.length)]
            if (master === undefined) return undefined
            const heal = begin(master, act)
            return async () => {
              await heal()
              await setup.settled()
            }
          },
        }),
      )
      return {
        place: (n) => place({ through: natMap(ports, (port) => links.through(n, port), cables.address) }),
        direct: () => openRedis(place({})),
        faults: [
          ...links.faults.map((fault) => ({ ...fault, weight: (fault.weight ?? 1) / 2 })),
          ...harmlessFaults(setup.nodes).map((fault) => ({
            ...fault,
            weight: (fault.weight ?? 1) / 2,
            lasts,
          })),
          ...cuts,
          ...(await slotMoves(setup)),
          forgedMessages(setup.nodes),
        ],
        settles: 6 * ttl + 8_000,
        answers: clusterAnswers(setup.nodes),
        check: { falseBusy: false },
        describe: async () => {
          const told = [
            describeAnswers(setup.nodes, 'INFO', 'replication'),
            describeAnswers(setup.nodes, 'CLUSTER', 'NODES'),
          ]
          return (await Promise.all(told)).join('\n\n')
        },
        versions: { redis: 'three masters, a replica each' },
        close: async () => {
          await links.close()
          await setup.stop()
          await cables.stop()
        },
      }
    },
  })
}
