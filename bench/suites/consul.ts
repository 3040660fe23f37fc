/** Consul beside a bare client: the same transaction that puts queue entry and lock under a session, and the same that removes both. */
import { createLocks } from 'holdfast'
import { consul } from 'holdfast/consul'
import { startConsul } from '../../test/support/servers/consul.js'
import { compareLibraries, pairWorker } from '../comparison.js'
import { eachOnce } from '../each-once.js'
import type { Comparison, Result } from '../figure.js'
import { BareHttp } from '../floors/http.js'
import { httpRequests } from '../http-requests.js'
import { installPeers, loadPeer, peerVersion } from '../peer-packages.js'
import type { Scale } from '../suite.js'
import { figures } from './over-http.js'

export async function measureConsul(scale: Scale): Promise<readonly Result[]> {
  installPeers()
  await using server = await startConsul()
  await using locks = createLocks(consul({ url: server.url }))
  const bare = new BareHttp(server.port)
  const asked = JSON.stringify({ TTL: '600s', NodeChecks: [], Behavior: 'delete' })
  const { ID } = JSON.parse(await bare.send('PUT', '/v1/session/create', asked)) as { ID: string }
  const what = { mode: 'exclusive', ttl: 30_000, since: 1_700_000_000_000, by: 'host:12345', held: true }
  let n = 0
  const pair = async (name: string) => {
    n++
    const attempt = n.toString(16).padStart(32, '0')
    const Value = Buffer.from(JSON.stringify({ attempt, ...what })).toString('base64')
    const [lock, place] = [`floor/${name}/.lock`, `floor/${name}/.line/${attempt}`]
    const op = (Verb: string, Key: string, more: object = {}) => ({ KV: { Verb, Key, ...more } })
    const held = { Value, Session: ID }
    const take = [
      op('check-not-exists', lock),
      op('check-not-exists', place),
      op('lock', place, held),
      op('lock', lock, held),
      op('get-tree', `floor/${name}/.line/`),
      op('get', lock),
    ]
    const taken = JSON.parse(await bare.send('PUT', '/v1/txn', JSON.stringify(take))) as {
      Results: { KV: { Key: string; ModifyIndex: number } }[]
    }
    const Index = taken.Results.findLast(({ KV }) => KV.Key === lock)?.KV.ModifyIndex
    const free = [op('check-index', lock, { Index }), op('delete', lock), op('delete', place)]
    await bare.send('PUT', '/v1/txn', JSON.stringify(free))
  }
  const ours = async (name: string) => {
    const lease = await locks.mutex(name).acquire()
    await lease.release()
  }
  try {
    const found = await figures('consul', 'bare transactions', ours, pair, scale)
    const once = await eachOnce('consul', consul({ url: server.url }), { requests: httpRequests }, scale)
    return [...found, once, await compare(ours, server.port, scale)]
  } finally {
    bare.close()
  }
}

/** The used part of the npm package. */
interface ConsulPackage {
  readonly default: new (options: {
    readonly host: string
    readonly port: number
  }) => {
    readonly session: {
      create(options: object): Promise<{ readonly ID: string }>
      destroy(id: string): Promise<unknown>
    }
    readonly kv: { set(options: object): Promise<unknown> }
  }
}

/** The package has no lock of its own: this is Consul's recipe, with one session for all. */
async function compare(
  ours: (name: string) => Promise<void>,
  port: number,
  scale: Scale,
): Promise<Comparison> {
  const { default: Consul } = (await loadPeer('consul')) as ConsulPackage
  const client = new Consul({ host: '127.0.0.1', port })
  const { ID } = await client.session.create({ ttl: '600s', checks: [], behavior: 'delete' })
  const theirs = async () => {
    const key = 'peer/.lock'
    const taken = await client.kv.set({ key, value: 'x', acquire: ID })
    if (taken !== true) throw new Error(`the key was not free: ${taken}`)
    await client.kv.set({ key, value: 'x', release: ID })
  }
  try {
    return await compareLibraries(
      'consul',
      [
        { library: 'holdfast', settings: 'defaults', rate: pairWorker(() => ours('beside')) },
        {
          library: `consul ${peerVersion('consul')}`,
          settings: 'kv.set with acquire and release',
          rate: pairWorker(theirs),
        },
      ],
      scale,
      'The package brings no lock: its two writes have no line, no token and no check of the session.',
    )
  } finally {
    await client.session.destroy(ID)
  }
}
