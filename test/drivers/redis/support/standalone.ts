// The conformance suite on single servers, for the files that run it.
import { after, describe, it } from 'node:test'
import { conformance, type Runner } from 'holdfast/conformance'
import { hasColumn } from '../../../support/promises.js'
import { type Flavour, startRedis } from '../../../support/servers/redis.js'
import type { Library } from './clients.js'
import { fixtureOf } from './fixture.js'

export async function conformsOn(
  flavour: Flavour,
  library: Library,
  runner: Runner = { describe, it },
): Promise<void> {
  const server = await startRedis({ flavour })
  const place = { is: 'single', port: server.port } as const
  const { fixture, close } = await fixtureOf(`redis (${flavour}, ${library})`, library, place, {
    stop: () => server.pause(),
    heal: () => server.resume(),
    loseHold: async (name) => void (await server.cli('DEL', `hf:{${name}}`)),
  })
  conformance(runner, { ...fixture, ...hasColumn('redis') })
  after(async () => {
    await close()
    await server.stop()
  })
}
