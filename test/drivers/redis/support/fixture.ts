// The conformance suite's view of Redis.
import type { Fixture } from 'holdfast/conformance'
import { Cables, type Library, type Place } from './clients.js'

export interface Servers {
  stop(): void
  heal(): void
  loseHold(name: string): Promise<void>
}

export async function fixtureOf(
  name: string,
  library: Library,
  place: Place,
  servers: Servers,
  more: Partial<Fixture> = {},
): Promise<{ fixture: Fixture; close(): Promise<void> }> {
  const cables = await Cables.to(place, 12)
  const fixture: Fixture = {
    name,
    traits: {
      modes: ['exclusive', 'shared', 'permits'],
      fair: true,
      minTtl: 20,
      shared: true,
      maxLockDelay: Number.POSITIVE_INFINITY,
      cells: true,
      portable: true,
      caching: true,
      acquireMany: place.is !== 'cluster',
    },
    make: () => cables.factory(library, place),
    reportsLoss: true,
    faults: {
      cut: (factory) => cables.cut(factory),
      heal: () => {
        servers.heal()
        cables.heal()
      },
      stop: () => servers.stop(),
      loseHold: (lock) => servers.loseHold(lock),
    },
    childClient: {
      module: new URL('./in-child.js', import.meta.url).href,
      export: 'make',
      args: [library, place],
    },
    ...more,
  }
  return { fixture, close: () => cables.stop() }
}
