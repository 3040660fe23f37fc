// The conformance suite on a single server, with either strategy, for the files that run it.
import { after, describe, it } from 'node:test'
import { createLocks, type Traits } from 'holdfast'
import { conformance, type Fixture, type Runner } from 'holdfast/conformance'
import { hasColumn } from '../../../support/promises.js'
import { startZookeeper } from '../../../support/servers/zookeeper.js'
import { brisk, Cables, type Options } from './clients.js'

const server = await startZookeeper({ tickTime: 200 })
const cables = await Cables.to([server.port], 12)

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
    faults: {
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
    childClient: {
      module: new URL('./in-child.js', import.meta.url).href,
      export: 'make',
      args: [{ servers: server.address, ...options }],
    },
  }
}

const all = { modes: ['exclusive', 'shared', 'permits'], fair: true, cells: true } as const

export function conformsWith(strategy: 'line' | 'simple', runner: Runner = { describe, it }): void {
  conformance(
    runner,
    strategy === 'line'
      ? fixtureOf('zookeeper', 'line', all)
      : fixtureOf('zookeeper (simple)', 'simple', { queue: false }),
  )
  after(async () => {
    await cables.stop()
    await server.stop()
  })
}
