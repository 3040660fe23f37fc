// The suite every driver passes, on a master watched by Sentinels.
// Second tier because redis.test.ts shows the same on a single server, and topology/ what is special about Sentinel.
import { after } from 'node:test'
import { conformance } from 'holdfast/conformance'
import { fixtureOf } from '../drivers/redis/support/fixture.js'
import { leakCheck } from '../support/leaks.js'
import { hasColumn } from '../support/promises.js'
import { startSentinel } from '../support/servers/redis-sentinel.js'
import { connectionOnly, withoutPrimitives } from './parts.js'

for (const [flavour, library] of [
  ['redis7', 'ioredis'],
  ['redis8', 'node-redis'],
] as const) {
  // They are not to promote while a test holds the master still.
  const setup = await startSentinel({ flavour, downAfter: 60_000 })
  const place = {
    is: 'sentinel',
    name: setup.name,
    sentinels: setup.addresses,
    ports: setup.nodes.map(({ port }) => port),
  } as const
  const { fixture, close } = await fixtureOf(`redis (sentinel of ${flavour}, ${library})`, library, place, {
    stop: () => setup.master().pause(),
    heal: () => setup.master().resume(),
    loseHold: async (name) => void (await setup.master().cli('DEL', `hf:{${name}}`)),
  })
  conformance(library === 'ioredis' ? withoutPrimitives : connectionOnly, {
    ...fixture,
    ...hasColumn('redis'),
  })
  after(async () => {
    await close()
    await setup.stop()
  })
}

after(leakCheck)
