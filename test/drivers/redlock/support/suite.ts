// The conformance suite over three independent servers, for the files that run it.
import { after } from 'node:test'
import { conformance, type Runner } from 'holdfast/conformance'
import { hasColumn } from '../../../support/promises.js'
import { type Flavour, startMany } from '../../../support/servers/redis.js'
import { Cables } from './clients.js'

/**
 * A process that is paused for a second is not to find that the servers were silent meanwhile: a try would be an error, and servers that
 * are met for the first time would be left out for a minute.
 */
const options = { commandTimeout: 5_000 }

export async function conformsOn(
  flavour: Flavour,
  library: 'ioredis' | 'node-redis',
  runner: Runner,
): Promise<void> {
  const group = await startMany(3, { flavour })
  const ports = group.servers.map(({ port }) => port)
  const cables = await Cables.to(ports, 12)
  conformance(runner, {
    name: `redlock (${flavour}, ${library})`,
    traits: {
      modes: ['exclusive', 'shared'],
      fair: false,
      minTtl: 100,
      shared: true,
      maxLockDelay: 29_400,
    },
    make: () => cables.factory(library, ports, options),
    faults: {
      cut: (factory) => cables.cut(factory),
      heal: () => {
        for (const server of group.servers) server.resume()
        cables.heal()
      },
      stop: () => {
        for (const server of group.servers) server.pause()
      },
    },
    childClient: {
      module: new URL('./in-child.js', import.meta.url).href,
      export: 'make',
      args: [library, ports, options],
    },
    handOver: 250,
    ...hasColumn('redlock'),
  })
  after(async () => {
    await cables.stop()
    await group.stop()
  })
}
