// The conformance suite's view of a server.
import type { Fixture } from 'holdfast/conformance'
import type { MysqlOptions } from '../../../../src/drivers/mysql/index.js'
import type { MysqlServer } from '../../../support/servers/mysql.js'
import { Cables, type Library } from './clients.js'

export async function fixtureOf(
  name: string,
  library: Library,
  server: MysqlServer,
  options: Partial<MysqlOptions> = {},
  more: Partial<Fixture> = {},
): Promise<{ fixture: Fixture; close(): Promise<void> }> {
  // A session is its connection: one that was reset has lost it, which is another test.
  const cables = await Cables.to(server.port, 12, options.strategy === 'session' ? 'delay' : 'lose')
  const fixture: Fixture = {
    name,
    traits: {
      modes: ['exclusive', 'shared', 'permits'],
      fair: true,
      minTtl: 100,
      shared: true,
      maxLockDelay: Number.POSITIVE_INFINITY,
      cells: true,
      portable: true,
      acquireMany: true,
    },
    make: () => cables.factory(library, options),
    faults: {
      cut: (factory) => cables.cut(factory),
      heal: () => {
        server.resume()
        cables.heal()
      },
      stop: () => server.pause(),
    },
    childClient: {
      module: new URL('./in-child.js', import.meta.url).href,
      export: 'make',
      args: [library, server.port, options],
    },
    ...more,
  }
  return { fixture, close: () => cables.stop() }
}
