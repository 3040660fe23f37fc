// The fixture of the conformance suite, on one server or a cluster.
import * as grpc from '@grpc/grpc-js'
import * as oldGrpc from 'grpc-js-1.9'
import { type EtcdOptions, etcd } from '../../../../src/drivers/etcd/index.js'
import { lockKeys } from '../../../../src/drivers/etcd/keys.js'
import { type EtcdVersion, startEtcdCluster } from '../../../support/servers/etcd.js'
import { sessionFixture } from '../../support/session-store.js'

type Protocol = 'gateway' | 'grpc' | 'grpc of the oldest client'

const overOf: Readonly<Record<Protocol, Pick<EtcdOptions, 'grpc'>>> = {
  gateway: {},
  grpc: { grpc },
  'grpc of the oldest client': { grpc: oldGrpc },
}

export async function fixtureOf(
  version: EtcdVersion,
  members: number,
  lease: 'process' | 'lock',
  protocol: Protocol = 'gateway',
): ReturnType<typeof sessionFixture> {
  const { servers, urls } = await startEtcdCluster(members, { version })
  const size = members === 1 ? 'one server' : `${members} members`
  return sessionFixture({
    name: `etcd ${version}, ${size}, a lease for each ${lease}, ${protocol},`,
    servers,
    maxLockDelay: Number.POSITIVE_INFINITY,
    maxBatch: 50,
    make: (endpoints) => etcd({ endpoints, lease, ...overOf[protocol] }),
    loseHold: async (name) => {
      await servers[0]?.ask('/v3/kv/deleterange', lockKeys('holdfast/', name).all)
    },
    childClient: {
      module: new URL('./in-child.js', import.meta.url).href,
      export: protocol === 'gateway' ? 'make' : 'makeOverGrpc',
      args: [urls, { lease }],
    },
  })
}
