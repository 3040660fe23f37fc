// A pending await keeps a process alive even if the store has died or never replies: otherwise Node would exit with 0 in the middle.
// Second tier because it starts and stops every kind of server; the suite asks the same of healthy ones (closing).
import assert from 'node:assert/strict'
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { after, describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'
import type { ChildClient } from 'holdfast/conformance'
import { grpcVersions } from '../drivers/etcd/support/grpc-versions.js'
import { meet } from '../drivers/redlock/support/scene.js'
import type { EndsTask, Step } from '../drivers/support/ends-child.js'
import { leakCheck } from '../support/leaks.js'
import { startConsul } from '../support/servers/consul.js'
import { startEtcd } from '../support/servers/etcd.js'
import { startMysql } from '../support/servers/mysql.js'
import { startPostgres } from '../support/servers/postgres.js'
import { startMany, startRedis } from '../support/servers/redis.js'
import { startZookeeper } from '../support/servers/zookeeper.js'

/** What a child takes part with, by client and strategy. */
type Takers = Readonly<Record<string, ChildClient>>

interface Store {
  start(): Promise<{ readonly ports: readonly number[]; stop(): Promise<void> }>
  /** @param make the function that makes the driver, where it is not `make` */
  takers(ports: readonly number[], make?: string): Takers
}

const childClient = (driver: string, exported: string, ...args: unknown[]): ChildClient => ({
  module: new URL(`../drivers/${driver}/support/in-child.js`, import.meta.url).href,
  export: exported,
  args,
})

const hosts = (ports: readonly number[]) => ports.map((port) => `127.0.0.1:${port}`)
const single = (start: () => Promise<{ readonly port: number; stop(): Promise<void> }>) => async () => {
  const { port, stop } = await start()
  return { ports: [port], stop }
}

const stores: Readonly<Record<string, Store>> = {
  postgres: {
    start: single(startPostgres),
    takers: ([port]) => ({
      'pg, row': childClient('postgres', 'make', 'pg', port, { strategy: 'row' }),
      'pg, session': childClient('postgres', 'make', 'pg', port, { strategy: 'session' }),
      'postgres.js, row': childClient('postgres', 'make', 'postgres.js', port, { strategy: 'row' }),
    }),
  },
  mysql: {
    start: single(startMysql),
    takers: ([port]) => ({
      'mysql2, row': childClient('mysql', 'make', 'mysql2', port, {}),
      'mysql2, session': childClient('mysql', 'make', 'mysql2', port, { strategy: 'session' }),
      'mariadb, row': childClient('mysql', 'make', 'mariadb', port, {}),
    }),
  },
  redis: {
    start: single(startRedis),
    takers: ([port], make = 'make') => ({
      ioredis: childClient('redis', make, 'ioredis', { is: 'single', port }),
      'node-redis': childClient('redis', make, 'node-redis', { is: 'single', port }),
    }),
  },
  redlock: {
    start: async () => {
      const { servers, stop } = await startMany(3)
      const ports = servers.map(({ port }) => port)
      await meet({ servers, ports, prefix: 'hf:' })
      return { ports, stop }
    },
    takers: (ports) => ({ ioredis: childClient('redlock', 'make', 'ioredis', ports) }),
  },
  etcd: {
    start: single(startEtcd),
    takers: (ports) => ({ etcd: childClient('etcd', 'make', hosts(ports)) }),
  },
  consul: {
    start: single(startConsul),
    takers: (ports) => ({ consul: childClient('consul', 'make', hosts(ports)) }),
  },
  zookeeper: {
    start: single(startZookeeper),
    takers: (ports) => ({
      zookeeper: childClient('zookeeper', 'make', { servers: hosts(ports).join(',') }),
    }),
  },
  'etcd over gRPC': {
    start: single(startEtcd),
    takers: (ports) =>
      Object.fromEntries(
        grpcVersions.map(({ version }) => [
          version,
          childClient('etcd', 'makeOverGrpcOf', version, hosts(ports)),
        ]),
      ),
  },
}

const ways: readonly (readonly Step[])[] = [
  ['close'],
  ['release', 'close'],
  ['wait', 'close'],
  ['try', 'close'],
  ['inspect', 'extend', 'close'],
]

describe('a process that awaits a reply of a dead store', { concurrency: 3 }, () => {
  for (const [store, { start, takers }] of Object.entries(stores)) {
    it(`stays until it has the error: ${store}`, { timeout: 120_000 }, async (t) => {
      const { ports, stop } = await start()
      const children = await started(t, takers(ports), ways)
      await stop()
      await allStay(children)
    })
  }
})

/** Of a process that has nothing yet. */
const firstWays: readonly (readonly Step[])[] = [
  ['wait', 'close'],
  ['try', 'close'],
  ['inspect', 'close'],
  ['close'],
]

describe('a process that awaits a reply that a store never sent', { concurrency: 3 }, () => {
  for (const [store, { takers }] of Object.entries(stores)) {
    it(`stays until it has the error: ${store}`, { timeout: 120_000 }, async (t) => {
      const taken = new Set<Socket>()
      const silent = createServer((socket) => {
        taken.add(socket.on('error', () => undefined).resume())
      }).listen(0, '127.0.0.1')
      await once(silent, 'listening')
      const { port } = silent.address() as AddressInfo
      const ports = store === 'redlock' ? [port, port, port] : [port]
      const make = store === 'redis' ? 'makeConnecting' : undefined
      await allStay(await started(t, takers(ports, make), firstWays, true))
      for (const socket of taken) socket.destroy()
      silent.close()
      await once(silent, 'close')
    })
  }
})

type After = { after(fn: () => void): void }

interface Child {
  readonly client: string
  readonly steps: readonly Step[]
  /** Now its store is dead; resolves with its exit code. */
  goOn(): Promise<number>
}

function started(
  t: After,
  takers: Takers,
  all: readonly (readonly Step[])[],
  silent?: true,
): Promise<readonly Child[]> {
  return Promise.all(
    Object.entries(takers).flatMap(([client, childClient]) =>
      all.map(async (steps, i) => ({
        client,
        steps,
        ...(await ender(t, { childClient, name: `${client} ${i}`, steps, ...(silent && { silent }) })),
      })),
    ),
  )
}

async function allStay(children: readonly Child[]): Promise<void> {
  await Promise.all(
    children.map(async ({ client, steps, goOn }) => {
      const code = await goOn()
      assert.equal(code, 0, `${client}: ended while it awaited ${steps[code - 10] ?? 'something'}`)
    }),
  )
}

/** Resolves once it holds. */
async function ender(t: After, task: EndsTask): Promise<Pick<Child, 'goOn'>> {
  const file = fileURLToPath(new URL('../drivers/support/ends-child.js', import.meta.url))
  const child = fork(file, [JSON.stringify(task)], {
    execArgv: [],
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  })
  t.after(() => void child.kill('SIGKILL'))
  const closed = once(child, 'close') as Promise<[number]>
  await Promise.race([
    once(child, 'message'),
    closed.then(([code]) => assert.fail(`the child ended with ${code} before it held`)),
  ])
  return {
    async goOn() {
      child.send('go on')
      return (await closed)[0]
    },
  }
}

after(leakCheck)
