// The fixture of the conformance suite: clients behind cables, on one agent or a cluster.
import type { Fixture } from '../../../../src/conformance/index.js'
import { consul } from '../../../../src/drivers/consul/index.js'
import { lineOf, pathOf } from '../../../../src/drivers/consul/keys.js'
import { type ConsulServer, startConsul, startConsulCluster } from '../../../support/servers/consul.js'
import { Cables } from '../../support/cables.js'

export async function fixtureOf(
  members: number,
  session: 'process' | 'lock',
): Promise<{ readonly fixture: Fixture; readonly close: () => Promise<void> }> {
  const cluster = members === 1 ? undefined : await startConsulCluster(members)
  const servers: readonly ConsulServer[] = cluster?.servers ?? [await startConsul()]
  const ports = servers.map(({ port }) => port)
  const cables = await Cables.to(ports, 12)
  const fixture: Fixture = {
    name: `consul, ${members === 1 ? 'one agent' : `${members} servers`}, a session for each ${session},`,
    traits: {
      modes: ['exclusive', 'shared', 'permits'],
      fair: true,
      minTtl: 1_000,
      shared: true,
      maxLockDelay: 43_200_000,
      cells: true,
    },
    make: () =>
      cables.factory((through) =>
        consul({ url: through.map((port) => `127.0.0.1:${port}`), minTtl: 1_000, session }),
      ),
    breakage: {
      cut: (factory) => cables.cut(factory),
      heal: () => {
        for (const server of servers) server.resume()
        cables.heal()
      },
      stop: () => {
        for (const server of servers) server.pause()
      },
      loseHold: async (name) => {
        const { lock, places } = lineOf('holdfast/', name)
        await servers[0]?.ask('DELETE', `/v1/kv/${pathOf(places)}?recurse`)
        await servers[0]?.ask('DELETE', `/v1/kv/${pathOf(lock)}`)
      },
    },
    taker: {
      module: new URL('./in-child.js', import.meta.url).href,
      export: 'make',
      args: [servers.map(({ url }) => url), { session }],
    },
  }
  const close = async () => {
    await cables.stop()
    for (const server of servers) await server.stop()
  }
  return { fixture, close }
}
