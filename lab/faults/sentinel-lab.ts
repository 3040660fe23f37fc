/** Shared by the lab's Sentinel set-ups: fail-overs with and without loss of the newest writes, and partitioned masters. */
import { memberCables } from '../../test/support/servers/member-cables.js'
import type { RedisServer } from '../../test/support/servers/redis.js'
import { startSentinel } from '../../test/support/servers/redis-sentinel.js'
import { describeAnswers } from './describe-store.js'
import { type Links, openLinks } from './links.js'
import { linkNames, listCuts } from './partitions.js'
import { serverAnswers } from './redis-answers.js'
import { natMap, openRedis, type RedisPlace } from './redis-client.js'
import { forgedMessages } from './redis-forger.js'
import { harmlessFaults, labServer, subjectNames } from './redis-servers.js'
import { type Excuse, type Fault, type LabDriver, lab as made } from './store.js'

export interface SentinelLab {
  readonly about: string
  readonly replicas: number
  /** Silence after which the Sentinels consider a server down, in ms. */
  readonly downAfter: number
  readonly args?: readonly string[]
  readonly options?: RedisPlace['options']
  /** What an old master may do before it learns that it has been replaced. */
  readonly twoMasters?: (ttl: number) => readonly Excuse[]
  readonly leastTtl?: number
}

export function sentinelLab({
  about,
  replicas,
  downAfter,
  args = [],
  options,
  twoMasters = () => [],
  leastTtl = 0,
}: SentinelLab): LabDriver {
  return made({
    about,
    leastTtl,
    client: (place) => openRedis(place as RedisPlace),
    open: async ({ workers, ttl }) => {
      const cables = memberCables()
      const setup = await startSentinel({
        ...labServer,
        args: [...labServer.args, ...args],
        persistence: 'aof-everysec',
        replicas,
        downAfter,
        cables,
      })
      const ports = setup.nodes.map(({ port }) => port)
      const links = await openLinks(workers, ports)
      const place = (more: Partial<RedisPlace>): RedisPlace => ({
        is: 'sentinel',
        hosts: setup.addresses,
        master: setup.name,
        options: { maxTtl: ttl, ...options },
        ...more,
      })
      const promotion = (kind: string, sync: boolean, how: 'kill' | 'freeze'): Fault => ({
        kind,
        subjects: ['master'],
        // This fault kills, freezes and wakes servers itself.
        also: subjectNames(setup.nodes),
        lasts: [2, 3],
        apart: 6_000,
        begin: async () => {
          const old = await setup.settled()
          await setup.promote({ sync, how })
          // The old master comes back: as a replica, once it learns of the new one.
          if (how === 'kill') await old.restart()
          else old.resume()
          // Until then clients stay with it. Sentinels that were paused themselves demote nobody for half a minute (TILT).
          await setup.settled()
          return undefined
        },
      })
      const excuses = twoMasters(ttl)
      return {
        place: (n) => place({ through: natMap(ports, (port) => links.through(n, port), cables.address) }),
        direct: () => openRedis(place({})),
        faults: [
          ...links.faults.map((fault) => ({ ...fault, weight: (fault.weight ?? 1) / 2 })),
          // Only short ones: a master silent for longer is replaced.
          ...harmlessFaults(setup.nodes).map((fault) => ({
            ...fault,
            weight: (fault.weight ?? 1) / 2,
            lasts: [0.02, 0.2] as const,
          })),
          promotion('promote the replica', true, 'kill'),
          promotion('promote a replica that lacks the newest writes', false, 'kill'),
          { ...promotion('promote while the old master is frozen', false, 'freeze'), excuses },
          ...partitionFaults(setup, links, cables, excuses),
          forgedMessages(setup.nodes),
        ],
        settles: 6 * ttl + 8_000,
        answers: serverAnswers(setup.nodes),
        check: { falseBusy: false },
        describe: async () => {
          const told = [
            describeAnswers(setup.nodes, 'INFO', 'replication'),
            describeAnswers(setup.sentinels, 'SENTINEL', 'MASTERS'),
          ]
          return (await Promise.all([...told, describeAnswers(setup.sentinels, 'INFO', 'sentinel')])).join(
            '\n\n',
          )
        },
        versions: { redis: `a master, replicas: ${replicas}` },
        close: async () => {
          await links.close()
          await setup.stop()
          await cables.stop()
        },
      }
    },
  })
}

type Setup = Awaited<ReturnType<typeof startSentinel>>

/** Cuts the master off from its replicas and the Sentinels, long enough for a promotion, or not quite. */
function partitionFaults(
  setup: Setup,
  links: Links,
  cables: ReturnType<typeof memberCables>,
  excuses: readonly Excuse[],
): Fault[] {
  const group = { servers: setup.nodes as readonly RedisServer[], links, cables }
  return listCuts(group).map(({ kind, weight = 1, begin }) => ({
    kind: `master: ${kind}`,
    subjects: ['master'],
    // Half of the server faults need all servers; and the master must be known.
    also: [...subjectNames(setup.nodes), ...linkNames(links, setup.nodes.length)],
    lasts: [0.5, 6],
    apart: 3_000,
    family: 'partition',
    weight,
    excuses,
    begin: async (act) => {
      const heal = begin(await setup.settled(), act)
      return async () => {
        await heal()
        await setup.settled()
      }
    },
  }))
}
