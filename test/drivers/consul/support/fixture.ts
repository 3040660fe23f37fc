// The fixture of the conformance suite, on one agent or a cluster.
import { consul } from '../../../../src/drivers/consul/index.js'
import { encodePath, lockKeys } from '../../../../src/drivers/consul/keys.js'
import { type ConsulServer, startConsul, startConsulCluster } from '../../../support/servers/consul.js'
import { sessionFixture } from '../../support/session-store.js'

export async function fixtureOf(
  members: number,
  session: 'process' | 'lock',
): ReturnType<typeof sessionFixture> {
  const cluster = members === 1 ? undefined : await startConsulCluster(members)
  const servers: readonly ConsulServer[] = cluster?.servers ?? [await startConsul()]
  const size = members === 1 ? 'one agent' : `${members} servers`
  return sessionFixture({
    name: `consul, ${size}, a session for each ${session},`,
    servers,
    maxLockDelay: 43_200_000,
    maxBatch: 12,
    make: (url) => consul({ url, minTtl: 1_000, session }),
    loseHold: async (name) => {
      const { lock, entryPrefix } = lockKeys('holdfast/', name)
      await servers[0]?.ask('DELETE', `/v1/kv/${encodePath(entryPrefix)}?recurse`)
      await servers[0]?.ask('DELETE', `/v1/kv/${encodePath(lock)}`)
    },
    childClient: {
      module: new URL('./in-child.js', import.meta.url).href,
      export: 'make',
      args: [servers.map(({ url }) => url), { session }],
    },
  })
}
