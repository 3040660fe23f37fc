// The suite every driver passes, on three servers. Clients know all of them and begin with any.
// Second tier because zookeeper.test.ts shows the same on one server, and topology/ what is special about ensembles.
import { after } from 'node:test'
import { createLocks } from 'holdfast'
import { conformance } from 'holdfast/conformance'
import { brisk, Cables } from '../drivers/zookeeper/support/clients.js'
import { leakCheck } from '../support/leaks.js'
import { hasColumn } from '../support/promises.js'
import { startEnsemble } from '../support/servers/zookeeper.js'
import { withoutPrimitives } from './parts.js'

// All servers are paused at once for an outage, and none may leave the others for that (syncLimit, in ticks): when both followers have
// left and are back before the leader has counted them, ZooKeeper 3.8 can continue with a message that they never got, and commits nothing more.
const ensemble = await startEnsemble({ tickTime: 200, config: ['syncLimit=300', 'initLimit=300'] })
const cables = await Cables.to(
  ensemble.servers.map(({ port }) => port),
  12,
)

conformance(withoutPrimitives, {
  name: 'zookeeper (three servers)',
  ...hasColumn('zookeeper'),
  traits: {
    modes: ['exclusive', 'shared', 'permits'],
    fair: true,
    minTtl: 20,
    shared: true,
    maxTtl: 2_099,
    maxLockDelay: 1_049,
    cells: true,
  },
  make: () => cables.factory(brisk),
  faults: {
    cut: (factory) => cables.cut(factory),
    heal: () => {
      for (const server of ensemble.servers) server.resume()
      cables.heal()
    },
    stop: () => {
      for (const server of ensemble.servers) server.pause()
    },
    loseHold: async (lock) => {
      const operator = createLocks(cables.factory(brisk))
      await operator.forceRelease(lock)
      await operator.close()
    },
  },
  childClient: {
    module: new URL('../drivers/zookeeper/support/in-child.js', import.meta.url).href,
    export: 'make',
    args: [{ servers: ensemble.addresses, ...brisk }],
  },
})

after(async () => {
  await cables.stop()
  await ensemble.stop()
})
after(leakCheck)
