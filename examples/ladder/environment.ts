/**
 * Where a scene is played: real servers of its own, and processes, each with cables of its own that can be pulled. A
 * "process" here is a client, its cables and its lock: for the servers there is no difference. Where it has to die or to
 * be paused it is a process of the operating system, see `holder.ts`. Servers and cables are those of the tests.
 */
import { Redis } from 'ioredis'
import { startProxy, type TcpProxy } from '../../test/support/proxy.js'
import { type RedisServer, startMany } from '../../test/support/servers/redis.js'
import { until } from '../../test/support/until.js'
import type { Lock, Recipe } from './lock.js'

export interface Process {
  readonly lock: Lock
  /** To the first server. */
  readonly client: Redis
  readonly cable: TcpProxy
  /** One for each server. */
  readonly clients: readonly Redis[]
  readonly cables: readonly TcpProxy[]
}

export interface Stage extends AsyncDisposable {
  /** The first one. */
  readonly server: RedisServer
  readonly servers: readonly RedisServer[]
  /** One that has used locks before: connected, scripts loaded, servers known. */
  process(onto?: readonly RedisServer[]): Promise<Process>
}

/** Long enough for any machine, however busy. */
export const patience = 20_000

export async function openStage(recipe: Recipe): Promise<Stage> {
  const { servers, stop } = await startMany(recipe.servers)
  const [server] = servers as [RedisServer]
  const stack: (() => unknown)[] = [stop]
  let processes = 0
  return {
    server,
    servers,
    async process(onto = servers) {
      const cables = await Promise.all(onto.map(({ port }) => startProxy({ port })))
      stack.push(() => Promise.all(cables.map((cable) => cable.stop())))
      const clients = cables.map(({ port }) => connect(port))
      stack.push(() => clients.map((client) => client.disconnect()))
      await answering(clients)
      const lock = recipe.open(...clients)
      stack.push(() => lock.close())
      await (await lock.tryAcquire(`rehearsal:${++processes}`, 30_000))?.release()
      const [client, cable] = [clients[0] as Redis, cables[0] as TcpProxy]
      return { lock, client, clients, cable, cables }
    },
    async [Symbol.asyncDispose]() {
      for (const undo of stack.reverse()) await undo()
    },
  }
}

/** Resolves when each of them is connected, also again, to a server that answers. */
export async function answering(clients: readonly Redis[]): Promise<void> {
  await Promise.all(clients.map((client) => client.ping()))
}

export function connect(port: number): Redis {
  const client = new Redis(port, '127.0.0.1', { retryStrategy: (times) => Math.min(20 * times, 200) })
  client.on('error', () => undefined)
  return client
}

/** How often clients have asked this server for a lock or released one, whatever the recipe. */
export async function asked(server: RedisServer): Promise<number> {
  const stats = String(await server.cli('INFO', 'commandstats'))
  const calls = stats.matchAll(/^cmdstat_(?:setnx|set|eval|evalsha):calls=(\d+)/gm)
  return [...calls].reduce((sum, [, n]) => sum + Number(n), 0)
}

/** How many connections of this server listen for messages. */
export async function listening(server: RedisServer): Promise<number> {
  const list = String(await server.cli('CLIENT', 'LIST', 'TYPE', 'pubsub'))
  return list.split('\n').filter((line) => line.startsWith('id=')).length
}

/** Resolves after this much time: for scenes that are about time. */
export async function elapsed(ms: number): Promise<void> {
  const since = performance.now()
  await until(() => performance.now() - since >= ms, { within: ms + patience, what: `${ms} ms to go by` })
}
