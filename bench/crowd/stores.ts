/** The stores whose crowds are measured: how each is started, reached, and asked how many requests it has served. */
import * as grpc from '@grpc/grpc-js'
import type { DriverFactory } from 'holdfast'
import { consul } from 'holdfast/consul'
import { etcd } from 'holdfast/etcd'
import { mysql } from 'holdfast/mysql'
import { postgres } from 'holdfast/postgres'
import { redis } from 'holdfast/redis'
import { zookeeper } from 'holdfast/zookeeper'
import { Redis } from 'ioredis'
import { createPool } from 'mysql2/promise'
import { Pool } from 'pg'
import { startConsul } from '../../test/support/servers/consul.js'
import { startEtcd } from '../../test/support/servers/etcd.js'
import { startMysql } from '../../test/support/servers/mysql.js'
import { startPostgres } from '../../test/support/servers/postgres.js'
import { startRedis } from '../../test/support/servers/redis.js'
import { startZookeeper } from '../../test/support/servers/zookeeper.js'
import { httpRequests } from '../http-requests.js'

export const stores = ['redis', 'postgres', 'mysql', 'etcd', 'etcd-grpc', 'zookeeper', 'consul'] as const
export type StoreName = (typeof stores)[number]

export interface Crowded extends AsyncDisposable {
  /** How clients reach it. */
  readonly address: string
  /** Requests served so far, as the server counts them. Absent: it does not; the clients count theirs. */
  served?(): Promise<number>
}

export async function startStore(name: StoreName): Promise<Crowded> {
  switch (name) {
    case 'redis':
      return onRedis()
    case 'postgres':
      return onPostgres()
    case 'mysql':
      return onMysql()
    case 'zookeeper': {
      const server = await startZookeeper()
      return { address: server.address, served: () => server.received(), ...ends(server) }
    }
    case 'consul': {
      const server = await startConsul()
      return { address: server.url, ...ends(server) }
    }
    default: {
      const server = await startEtcd()
      return { address: server.url, served: () => etcdCalls(server.url), ...ends(server) }
    }
  }
}

const ends = (server: { stop(): Promise<void> }) => ({ [Symbol.asyncDispose]: () => server.stop() })

async function onRedis(): Promise<Crowded> {
  const server = await startRedis()
  const served = async () =>
    Number(/total_commands_processed:(\d+)/.exec(String(await server.cli('INFO', 'stats')))?.[1])
  return { address: String(server.port), served, ...ends(server) }
}

async function onPostgres(): Promise<Crowded> {
  const server = await startPostgres()
  const served = async () => {
    await server.sql('select pg_stat_force_next_flush()')
    const [row] = await server.sql('select sum(xact_commit) as n from pg_stat_database')
    return Number(row?.['n'])
  }
  return { address: server.url, served, ...ends(server) }
}

async function onMysql(): Promise<Crowded> {
  const server = await startMysql()
  const served = async () => {
    const [row] = await server.query(`show global status where variable_name = 'Questions'`)
    return Number(row?.['Value'])
  }
  return { address: server.url, served, ...ends(server) }
}

/** The calls that reach etcd itself, over either way in; the gateway passes each on as one. A watch counts once it is made. */
async function etcdCalls(url: string): Promise<number> {
  const text = await (await fetch(`${url}/metrics`, { headers: { connection: 'close' } })).text()
  let sum = 0
  for (const line of text.split('\n'))
    if (/^grpc_server_msg_received_total\{/.test(line)) sum += Number(line.slice(line.lastIndexOf(' ')))
  return sum
}

export interface Opened {
  readonly driver: DriverFactory
  /** Requests this process has sent, where the server does not count. */
  sent(): number
  close(): Promise<unknown>
}

export function openStore(name: StoreName, address: string): Opened {
  const nothing = { sent: () => 0, close: async () => undefined }
  switch (name) {
    case 'redis': {
      const client = new Redis(Number(address))
      return { ...nothing, driver: redis({ client, maxTtl: 600_000 }), close: () => client.quit() }
    }
    case 'postgres': {
      const pool = new Pool({ connectionString: address })
      return { ...nothing, driver: postgres({ pool }), close: () => pool.end() }
    }
    case 'mysql': {
      const pool = createPool({ uri: address, connectionLimit: 10 })
      return { ...nothing, driver: mysql({ pool }), close: () => pool.end() }
    }
    case 'zookeeper':
      return { ...nothing, driver: zookeeper({ servers: address, chroot: '/bench' }) }
    case 'consul':
      httpRequests()
      return { ...nothing, driver: consul({ url: address }), sent: httpRequests }
    case 'etcd':
      return { ...nothing, driver: etcd({ endpoints: address }) }
    case 'etcd-grpc':
      return { ...nothing, driver: etcd({ endpoints: address, grpc }) }
  }
}
