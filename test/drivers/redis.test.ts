// The suite every driver passes, on single servers of all flavours and with both clients. Cluster and Sentinel stand in
// files of their own, what is special about Redis in redis/.
import { after, describe, it } from 'node:test'
import { conformance } from 'holdfast/conformance'
import { leakCheck } from '../support/leaks.js'
import { type Flavour, startRedis } from '../support/servers/redis.js'
import { fixtureOf } from './redis/support/fixture.js'

const runs: readonly (readonly [Flavour, 'ioredis' | 'node-redis'])[] = [
  ['redis7', 'ioredis'],
  ['redis7', 'node-redis'],
  ['redis8', 'ioredis'],
  ['valkey8', 'node-redis'],
]

for (const [flavour, library] of runs) {
  const server = await startRedis({ flavour })
  const place = { is: 'single', port: server.port } as const
  const { fixture, close } = await fixtureOf(`redis (${flavour}, ${library})`, library, place, {
    stop: () => server.pause(),
    heal: () => server.resume(),
    loseHold: async (name) => void (await server.cli('DEL', `hf:{${name}}`)),
  })
  conformance({ describe, it }, fixture)
  after(async () => {
    await close()
    await server.stop()
  })
}

after(leakCheck)
