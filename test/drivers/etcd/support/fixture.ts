// The fixture of the conformance suite: clients behind cables, on one server or a cluster.
import type { Fixture } from '../../../../src/conformance/index.js'
import { etcd } from '../../../../src/drivers/etcd/index.js'
import { lineOf } from '../../../../src/drivers/etcd/keys.js'
import { type EtcdVersion, startEtcdCluster } from '../../../support/servers/etcd.js'
import { Cables } from '../../support/cables.js'

export async function fixtureOf(
  version: EtcdVersion,
  members: number,
  lease: 'process' | 'lock',
): Promise<{ readonly fixture: Fixture; readonly close: () => Promise<void> }> {
  const { servers, urls, stop } = await startEtcdCluster(members, { version })
  const ports = servers.map(({ port }) => port)
  const cables = await Cables.to(ports, 12)
  const fixture: Fixture = {
    name: `etcd ${version}, ${members === 1 ? 'one server' : `${members} members`}, a lease for each ${lease},`,
    traits: {
      modes: ['exclusive', 'shared', 'permits'],
      fair: true,
      minTtl: 1_000,
      shared: true,
      maxLockDelay: Number.POSITIVE_INFINITY,
      cells: true,
    },
    make: () =>
      cables.factory((through) => etcd({ endpoints: through.map((port) => `127.0.0.1:${port}`), lease })),
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
        await servers[0]?.ask('/v3/kv/deleterange', lineOf('holdfast/', name).all)
      },
    },
    taker: {
      module: new URL('./in-child.js', import.meta.url).href,
      export: 'make',
      args: [urls, { lease }],
    },
  }
  const close = async () => {
    await cables.stop()
    await stop()
  }
  return { fixture, close }
}
