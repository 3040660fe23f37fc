// The suite every driver passes, on three servers. Clients know all of them and begin with any.
import { after, describe, it } from 'node:test'
import { createLocks } from 'holdfast'
import { conformance } from 'holdfast/conformance'
import { leakCheck } from '../support/leaks.js'
import { startEnsemble } from '../support/servers/zookeeper.js'
import { brisk, Cables } from './zookeeper/support/clients.js'

const ensemble = await startEnsemble({ tickTime: 200, config: ['syncLimit=25', 'initLimit=50'] })
const cables = await Cables.to(
  ensemble.servers.map(({ port }) => port),
  12,
)

conformance(
  { describe, it },
  {
    name: 'zookeeper (three servers)',
    traits: {
      modes: ['exclusive', 'shared', 'permits'],
      fair: true,
      minTtl: 20,
      shared: true,
      maxLockDelay: 1_066,
      cells: true,
    },
    make: () => cables.factory(brisk),
    breakage: {
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
    taker: {
      module: new URL('./zookeeper/support/in-child.js', import.meta.url).href,
      export: 'make',
      args: [{ servers: ensemble.addresses, ...brisk }],
    },
  },
)

after(async () => {
  await cables.stop()
  await ensemble.stop()
})
after(leakCheck)
