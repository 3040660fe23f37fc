// TLS over Sentinels and in a Cluster, with every version of ioredis and node-redis that package.json admits: the connections that the
// driver makes of the given client use TLS, too, and check the certificate as it does.
// Second tier because it repeats for other versions of the clients what test/cli/tls.test.ts shows.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { after, test } from 'node:test'
import { createLocks } from '../../src/create-locks.js'
import { redis } from '../../src/drivers/redis/index.js'
import { handsOver, joined } from '../drivers/redis/support/contract.js'
import type { Place } from '../drivers/redis/support/place.js'
import { type ClientOptions, type Version, versions } from '../drivers/redis/support/versions.js'
import { leakCheck } from '../support/leaks.js'
import {
  certificates,
  startTlsCluster,
  startTlsSentinel,
  type TlsSetup,
} from '../support/servers/redis-tls.js'

const [sentinel, cluster] = await Promise.all([
  startTlsSentinel(certificates.right),
  startTlsCluster(certificates.right),
])
after(() => Promise.all([sentinel.stop(), cluster.stop()]))

const host = '127.0.0.1'
const setups: readonly (readonly [setup: TlsSetup, place: Place])[] = [
  [sentinel, { is: 'sentinel', name: sentinel.name, sentinels: [{ host, port: sentinel.port }], ports: [] }],
  [cluster, { is: 'cluster', ports: [cluster.port] }],
]

const unhandled: unknown[] = []
const note = (reason: unknown) => void unhandled.push(reason)
process.on('unhandledRejection', note)
process.on('uncaughtException', note)
after(() => {
  process.off('unhandledRejection', note)
  process.off('uncaughtException', note)
  assert.deepEqual(unhandled, [])
})

/** Options of each node's client, and of the Cluster or Sentinel client, by which they connect over TLS and believe this authority. */
function overTls({ library }: Version, ca?: Buffer): readonly [each: ClientOptions, group: ClientOptions] {
  const tls = ca === undefined ? {} : { ca }
  if (library === 'ioredis') return [{ tls }, { sentinelTLS: tls, enableTLSForSentinelMode: true }]
  const socket = { tls: true, ...tls }
  return [{ socket }, { sentinelClientOptions: { socket } }]
}

for (const version of versions) {
  for (const [{ server }, place] of setups) {
    if (!version.places.includes(place.is)) continue

    test(`${version.name}, ${place.is}: a lock is taken and handed over by push over TLS, also after a cut`, async (t) => {
      const options = overTls(version, readFileSync(certificates.right.cert))
      const [a, b] = [
        await joined(t, version, place, ...options),
        await joined(t, version, place, ...options),
      ]
      const name = `${version.name} ${place.is}`
      await handsOver(a, b, name, server)
      await server.cli('CLIENT', 'KILL', 'TYPE', 'pubsub')
      await handsOver(a, b, name, server)
      await Promise.all([a.close(), b.close()])
    })

    test(`${version.name}, ${place.is}: a certificate of an unknown authority is refused`, async () => {
      const { client, start, close } = await version.open(place, ...overTls(version))
      start().catch(() => undefined)
      const locks = createLocks(redis({ client, quarantine: 'off' }))
      await assert.rejects(locks.mutex('refused').acquire({ wait: 1_000 }), { name: 'BackendError' })
      await locks.close()
      close()
    })
  }
}

after(leakCheck)
