// The suite every driver passes, on a single server. Ensembles and what is special about ZooKeeper stand
// in zookeeper/.
import { after, describe, it } from 'node:test'
import { createLocks } from 'holdfast'
import { conformance, type Fixture } from 'holdfast/conformance'
import { leakCheck } from '../support/leaks.js'
import { startZookeeper } from '../support/servers/zookeeper.js'
import { brisk, Cables } from './zookeeper/support/clients.js'

const server = await startZookeeper({ tickTime: 200 })
const cables = await Cables.to([server.port], 12)

const fixture: Fixture = {
  name: 'zookeeper',
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
      server.resume()
      cables.heal()
    },
    stop: () => server.pause(),
    loseHold: async (lock) => {
      const operator = createLocks(cables.factory(brisk))
      await operator.forceRelease(lock)
      await operator.close()
    },
  },
  taker: {
    module: new URL('./zookeeper/support/in-child.js', import.meta.url).href,
    export: 'make',
    args: [{ servers: server.address, ...brisk }],
  },
}

conformance({ describe, it }, fixture)

after(async () => {
  await cables.stop()
  await server.stop()
})
after(leakCheck)
