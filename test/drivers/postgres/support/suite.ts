// The suite every driver passes, on a server of its own.
import { after, describe, it } from 'node:test'
import type { Traits } from 'holdfast'
import { conformance, type Runner } from 'holdfast/conformance'
import { hasColumn } from '../../../support/promises.js'
import { startPostgres } from '../../../support/servers/postgres.js'
import { Cables, type Library, type Options } from './clients.js'

const traits: Readonly<Record<'row' | 'session', Traits>> = {
  row: {
    modes: ['exclusive', 'shared', 'permits'],
    fair: true,
    minTtl: 50,
    shared: true,
    maxLockDelay: Number.POSITIVE_INFINITY,
    cells: true,
    acquireMany: true,
  },
  session: { modes: ['exclusive', 'shared'], fair: true, minTtl: 500, shared: true },
}

/** How a hold is ended behind the driver's back. */
const endHold = {
  row: `update holdfast_locks set kind = '-', owner = null, expires = null where name = $1`,
  session: `select pg_terminate_backend(pid) from holdfast_holds where name = e'\\x01' || $1`,
}

export async function conforms(
  library: Library,
  strategy: 'row' | 'session',
  runner: Runner = { describe, it },
): Promise<void> {
  const server = await startPostgres()
  const cables = await Cables.to(server.port, 12)
  const options: Options = { strategy }
  conformance(runner, {
    name: `postgres (${strategy}, ${library})`,
    traits: traits[strategy],
    ...hasColumn(strategy === 'row' ? 'postgres' : 'postgres (session)'),
    make: () => cables.factory(library, options),
    reportsLoss: strategy === 'row',
    faults: {
      // A session ends with its connection, so a cut that is healed must not break it.
      cut: (factory) => cables.cut(factory, strategy === 'session'),
      heal: () => {
        server.resume()
        cables.heal()
      },
      stop: () => server.pause(),
      loseHold: async (name) => void (await server.sql(endHold[strategy], [name])),
    },
    childClient: {
      module: new URL('./in-child.js', import.meta.url).href,
      export: 'make',
      args: [library, server.port, options],
    },
  })
  after(async () => {
    await cables.stop()
    await server.stop()
  })
}
