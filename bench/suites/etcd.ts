/** etcd, over its gateway and over gRPC, each beside a bare client: the same transaction that reads and puts under a lease, and the same removal. */
import * as grpc from '@grpc/grpc-js'
import { createLocks, type Lease } from 'holdfast'
import { etcd } from 'holdfast/etcd'
import { startEtcd } from '../../test/support/servers/etcd.js'
import { compareLibraries, pairWorker } from '../comparison.js'
import { eachOnce } from '../each-once.js'
import type { Comparison, Result } from '../figure.js'
import { BareGrpc } from '../floors/grpc.js'
import { BareHttp, type Pair } from '../floors/http.js'
import { httpRequests } from '../http-requests.js'
import { installPeers, loadPeer, peerVersion } from '../peer-packages.js'
import type { Scale } from '../suite.js'
import { figures } from './over-http.js'

const base64 = (text: string) => Buffer.from(text).toString('base64')

export async function measureEtcd(scale: Scale): Promise<readonly Result[]> {
  installPeers()
  await using server = await startEtcd()
  await using locks = createLocks(etcd({ endpoints: server.url }))
  await using grpcLocks = createLocks(etcd({ endpoints: server.url, grpc }))
  const bare = new BareHttp(server.port)
  const bareGrpc = new BareGrpc(server.port)
  const { ID } = JSON.parse(await bare.send('POST', '/v3/lease/grant', '{"TTL":"600"}')) as { ID: string }
  const value = base64(
    JSON.stringify({ mode: 'exclusive', ttl: 30_000, since: 1_700_000_000_000, by: 'host:12345' }),
  )
  let n = 0
  const pairOver = (
    txn: (body: object) => Promise<unknown>,
    removal: (body: object) => Promise<unknown>,
  ): Pair => {
    return async (name) => {
      n++
      const key = base64(`floor/${name}/${n.toString(16).padStart(32, '0')}`)
      const all = { key: base64(`floor/${name}/`), range_end: base64(`floor/${name}0`) }
      const last = { ...all, sort_order: 'DESCEND', sort_target: 'CREATE', limit: '1' }
      const first = { ...last, sort_order: 'ASCEND' }
      const absent = { key, target: 'CREATE', result: 'EQUAL', create_revision: '0' }
      const put = { key, value, lease: ID }
      const success = [{ request_range: last }, { request_range: first }, { request_put: put }]
      await txn({ compare: [absent], success })
      await removal({ key })
    }
  }
  const pair = pairOver(
    (body) => bare.send('POST', '/v3/kv/txn', JSON.stringify(body)),
    (body) => bare.send('POST', '/v3/kv/deleterange', JSON.stringify(body)),
  )
  const grpcPair = pairOver(
    (body) => bareGrpc.send('txn', body),
    (body) => bareGrpc.send('deleteRange', body),
  )
  const over = (given: { mutex(name: string): { acquire(): Promise<Lease> } }) => async (name: string) => {
    const lease = await given.mutex(name).acquire()
    await lease.release()
  }
  const ours = over(locks)
  const oursGrpc = over(grpcLocks)
  try {
    const found = await figures('etcd', 'bare transaction and removal', ours, pair, scale)
    const called = await figures(
      'etcd',
      'bare calls of @grpc/grpc-js',
      oursGrpc,
      grpcPair,
      scale,
      ', over gRPC',
    )
    const once = await eachOnce('etcd', etcd({ endpoints: server.url }), { requests: httpRequests }, scale)
    return [...found, ...called, once, await compare(ours, oursGrpc, server.url, scale)]
  } finally {
    bare.close()
    bareGrpc.close()
  }
}

/** The used part of the npm package. */
interface Etcd3 {
  readonly Etcd3: new (options: {
    readonly hosts: string
  }) => {
    lock(key: string): { ttl(seconds: number): { acquire(): Promise<{ release(): Promise<void> }> } }
    close(): void
  }
}

async function compare(ours: Pair, oursGrpc: Pair, url: string, scale: Scale): Promise<Comparison> {
  const { Etcd3 } = (await loadPeer('etcd3')) as Etcd3
  const client = new Etcd3({ hosts: url })
  const theirs = async () => {
    // If a reply arrives after the release, the library leaves a timer of one ttl behind, which keeps the process alive.
    const lock = await client.lock('peer').ttl(5).acquire()
    await lock.release()
  }
  try {
    return await compareLibraries(
      'etcd',
      [
        { library: 'holdfast', settings: 'defaults', rate: pairWorker(() => ours('beside')) },
        { library: 'holdfast', settings: 'over gRPC', rate: pairWorker(() => oursGrpc('beside')) },
        { library: `etcd3 ${peerVersion('etcd3')} Lock`, settings: 'ttl 5 s', rate: pairWorker(theirs) },
      ],
      scale,
      'The Lock of etcd3 is a single try without a line; it grants a lease for each lock and revokes it with the release, over gRPC.',
    )
  } finally {
    client.close()
  }
}
