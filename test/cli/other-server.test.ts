// A URL with the scheme of another store: the error names the actual server, however long the client would keep retrying.
// Second tier because it starts one server of each kind.
import assert from 'node:assert/strict'
import { after, describe, it } from 'node:test'
import { memory } from 'holdfast/memory'
import { target } from '../../src/cli/connect.js'
import { orOtherServer, otherServer } from '../../src/cli/other-server.js'
import { withStore } from '../../src/cli/with-store.js'
import { leakCheck } from '../support/leaks.js'
import { startConsul } from '../support/servers/consul.js'
import { startEtcd } from '../support/servers/etcd.js'
import { startMysql } from '../support/servers/mysql.js'
import { startPostgres } from '../support/servers/postgres.js'
import { startRedis } from '../support/servers/redis.js'
import { startCluster } from '../support/servers/redis-cluster.js'
import { startSentinel } from '../support/servers/redis-sentinel.js'
import { startZookeeper } from '../support/servers/zookeeper.js'

const urls: Readonly<Record<string, (at: string) => string>> = {
  redis: (at) => `redis://${at}`,
  'redis+sentinel': (at) => `redis+sentinel://${at}/mymaster`,
  'redis+cluster': (at) => `redis+cluster://${at}`,
  redlock: (at) => `redlock://${at},127.0.0.1:1,127.0.0.1:2`,
  postgres: (at) => `postgres://app@${at}/app`,
  postgresql: (at) => `postgresql://app@${at}/app`,
  mysql: (at) => `mysql://app@${at}/app`,
  etcd: (at) => `etcd://${at}`,
  zookeeper: (at) => `zookeeper://${at}`,
  consul: (at) => `consul://${at}`,
}

interface Server {
  readonly port: number
  stop(): Promise<unknown>
}

async function sentinel(): Promise<Server> {
  const setup = await startSentinel({ replicas: 0 })
  return { port: setup.sentinels[0]?.port ?? 0, stop: () => setup.stop() }
}

async function cluster(): Promise<Server> {
  const setup = await startCluster()
  return { port: setup.nodes[0]?.port ?? 0, stop: () => setup.stop() }
}

/** @param fits the schemes that are right for it; the first is advised */
const kinds: readonly { name: string; fits: readonly string[]; start: () => Promise<Server> }[] = [
  { name: 'Redis or Valkey, and not a cluster', fits: ['redis', 'redlock'], start: startRedis },
  { name: 'a Redis Sentinel', fits: ['redis+sentinel'], start: sentinel },
  { name: 'a node of a Redis Cluster', fits: ['redis+cluster', 'redis'], start: cluster },
  { name: 'PostgreSQL', fits: ['postgres', 'postgresql'], start: startPostgres },
  { name: 'MySQL or MariaDB', fits: ['mysql'], start: startMysql },
  { name: 'etcd', fits: ['etcd'], start: startEtcd },
  { name: 'Consul', fits: ['consul'], start: startConsul },
  { name: 'ZooKeeper', fits: ['zookeeper'], start: startZookeeper },
]

/** A client that never gives up. */
const never = () => new Promise<never>(() => undefined)

describe('the scheme of another store', () => {
  for (const { name, fits, start } of kinds)
    it(`${name} is named in the error when another store was expected`, async () => {
      const server = await start()
      const at = `127.0.0.1:${server.port}`
      try {
        for (const [scheme, url] of Object.entries(urls)) {
          const store = target(url(at))
          if (fits.includes(scheme)) assert.equal(await otherServer(store), undefined, scheme)
          else
            await assert.rejects(orOtherServer(store, never()), {
              name: 'OtherServer',
              message: `${at} is ${name}: write ${fits[0]}:// instead of ${scheme}://`,
            })
        }
      } finally {
        await server.stop()
      }
    })

  it('no client is waited for that neither answers nor ends', async () => {
    await using server = await startRedis()
    const silent = {
      ...target(`mysql://app@127.0.0.1:${server.port}/app`),
      connect: async () => ({ driver: memory(), close: never }),
    }
    await assert.rejects(withStore(silent, never), {
      exitCode: 69,
      message: /is Redis or Valkey.*write redis:/,
    })
  })
})

after(leakCheck)
