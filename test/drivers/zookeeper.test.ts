// The suite every driver passes, on a single server, with either strategy. Ensembles and what is special about ZooKeeper stand
// in zookeeper/.
import { after, describe, it } from 'node:test'
import { createLocks, type Traits } from 'holdfast'
import { conformance, type Fixture } from 'holdfast/conformance'
import { leakCheck } from '../support/leaks.js'
import { hasColumn } from '../support/promises.js'
import { startZookeeper } from '../support/servers/zookeeper.js'
import { brisk, Cables, type Options } from './zookeeper/support/clients.js'

const server = await startZookeeper({ tickTime: 200 })
const cables = await Cables.to([server.port], 12)

/** One server for both strategies, which know nothing of each other: below one node a lock is either a line or one node. */
function fixtureOf(name: string, strategy: 'line' | 'simple', own: Partial<Traits>): Fixture {
  const options = { ...brisk, strategy, chroot: `/${strategy}` } as Options
  return {
    name,
    ...hasColumn(strategy === 'line' ? 'zookeeper' : 'zookeeper (simple)'),
    traits: {
      modes: ['exclusive'],
      fair: false,
      minTtl: 20,
      shared: true,
      maxTtl: 2_099,
      maxLockDelay: 1_049,
      ...own,
    },
    make: () => cables.factory(options),
    breakage: {
      cut: (factory) => cables.cut(factory),
      heal: () => {
        server.resume()
        cables.heal()
      },
      stop: () => server.pause(),
      loseHold: async (lock) => {
        const operator = createLocks(cables.factory(options))
        await operator.forceRelease(lock)
        await operator.close()
      },
    },
    taker: {
      module: new URL('./zookeeper/support/in-child.js', import.meta.url).href,
      export: 'make',
      args: [{ servers: server.address, ...options }],
    },
  }
}

const all = { modes: ['exclusive', 'shared', 'permits'], fair: true, cells: true } as const
conformance({ describe, it }, fixtureOf('zookeeper', 'line', all))
conformance({ describe, it }, fixtureOf('zookeeper (simple)', 'simple', { line: false }))

after(async () => {
  await cables.stop()
  await server.stop()
})
after(leakCheck)
