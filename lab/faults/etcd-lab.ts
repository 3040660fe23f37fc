/** Shared by the lab's etcd drivers: clients, further faults of a member, and how long a waiter may wait at the end. */
import * as grpc from '@grpc/grpc-js'
import { etcd } from 'holdfast/etcd'
import type { EtcdCluster, EtcdServer } from '../../test/support/servers/etcd.js'
import { until } from '../../test/support/until.js'
import type { Client, Fault } from './store.js'

const host = '127.0.0.1'

/** etcd's minimum, in ms. */
export const minTtl = 1_000

export function openEtcd(
  ports: readonly number[],
  lease: 'process' | 'lock',
  protocol: 'JSON' | 'gRPC' = 'JSON',
): Client {
  const endpoints = ports.map((port) => `${host}:${port}`)
  const over = protocol === 'gRPC' ? { grpc } : {}
  return { driver: etcd({ endpoints, lease, requestTimeout: 500, ...over }), close: () => undefined }
}

/** The lease granted for a ttl: a tenth more, in whole seconds. */
const granted = (ttl: number) => Math.ceil((ttl * 1.1) / 1_000) * 1_000

/** docs/drivers/etcd.md: twice the ttl and 5 s. Then the waiters ahead have their sections, of at most two ttls each, one after another. */
export const settleTime = (ttl: number, workers: number): number =>
  retainedAfterDeath(ttl) + 2 * ttl * (workers - 1)

/** How much longer than its holder the store may keep a queue entry, in ms. */
export const retainedAfterDeath = (ttl: number): number => 2 * granted(ttl) + 5_000

/** Whichever of them takes a write. */
export const createAnswerCheck =
  (servers: readonly EtcdServer[]) =>
  (signal: AbortSignal): Promise<unknown> =>
    Promise.any(servers.map((server) => server.ask('/v3/kv/put', { key: 'YQ==', value: 'eA==' }, signal)))

export async function readVersion(server: EtcdServer): Promise<string> {
  return String((await server.ask('/v3/maintenance/status', {}))['version'])
}

const ignore = () => undefined
const soon = [0.05, 0.1] as const

/** Routine maintenance of a store; it costs nobody a lock. */
export function upkeep(servers: readonly EtcdServer[]): Fault[] {
  const subjects = servers.map((_, n) => `upkeep ${n}`)
  const at = (n: number) => servers[n] as EtcdServer
  return [
    {
      kind: 'compaction',
      subjects,
      weight: 2,
      lasts: soon,
      begin: async ({ n }) => {
        await compact(at(n)).catch(ignore)
        return undefined
      },
    },
    {
      kind: 'defragmentation',
      subjects,
      lasts: soon,
      begin: async ({ n }) => {
        await order(at(n), '/v3/maintenance/defragment', {}).catch(ignore)
        return undefined
      },
    },
    {
      kind: 'no space left',
      subjects,
      lasts: [0.1, 1],
      begin: async ({ n }) => {
        await alarm(at(n), 'ACTIVATE').catch(ignore)
        return () => calm(servers)
      },
    },
  ]
}

/** An operator moves the leadership to another member. */
export function newLeader({ servers, leader }: EtcdCluster): Fault {
  return {
    kind: 'leader: moved',
    subjects: ['servers'],
    lasts: soon,
    begin: async ({ amount }) => {
      const present = await leader()
      const others = servers.filter((one) => one !== present)
      const next = others[Math.floor(amount * others.length)]
      if (next === undefined) return undefined
      const { header } = (await order(next, '/v3/maintenance/status', {})) as {
        header: { member_id: string }
      }
      await present.ctl('move-leader', BigInt(header.member_id).toString(16)).catch(ignore)
      return undefined
    },
  }
}

/** An operator revokes a lease with holders and waiters. */
export function revocation(servers: readonly EtcdServer[], ttl: number): Fault {
  return {
    kind: 'a lease revoked',
    subjects: ['leases'],
    lasts: soon,
    apart: 2 * ttl,
    excuses: [
      {
        rules: ['exclusion', 'read-write', 'permits'],
        within: granted(ttl),
        why: 'a lease that an operator revokes is known to be gone at its next beat only (docs/drivers/etcd.md)',
      },
    ],
    begin: async ({ amount }) => {
      const server = servers[Math.floor(amount * servers.length)] as EtcdServer
      const { leases = [] } = (await order(server, '/v3/lease/leases', {}).catch(ignore)) ?? {}
      const all = leases as readonly { readonly ID: string }[]
      const one = all[Math.floor(amount * 1_000) % Math.max(1, all.length)]
      if (one !== undefined) await order(server, '/v3/lease/revoke', { ID: one.ID }).catch(ignore)
      return undefined
    },
  }
}

/** A member that is down, frozen or without a majority does not execute it, which is fine. */
function order(server: EtcdServer, path: string, body: object): Promise<Record<string, unknown>> {
  return server.ask(path, body, AbortSignal.timeout(1_000))
}

async function compact(server: EtcdServer): Promise<void> {
  const { header } = (await order(server, '/v3/kv/range', { key: 'AA==' })) as {
    header: { revision: string }
  }
  await order(server, '/v3/kv/compaction', { revision: header.revision, physical: true })
}

async function alarm(server: EtcdServer, action: 'ACTIVATE' | 'DEACTIVATE'): Promise<void> {
  await order(server, '/v3/maintenance/alarm', { action, memberID: '1', alarm: 'NOSPACE' })
}

/** Repeats until the alarm is certainly off: any member that can takes the order. */
async function calm(servers: readonly EtcdServer[]): Promise<void> {
  await until(
    async () => {
      for (const server of servers.filter(({ running }) => running)) {
        const off = await alarm(server, 'DEACTIVATE').then(
          () => true,
          () => false,
        )
        if (off) return true
      }
      return false
    },
    { within: 20_000, every: 100, what: 'the alarm to be off' },
  )
}
