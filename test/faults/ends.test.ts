// What a process awaits keeps it alive until it is answered, when the store has died, too: otherwise Node ends it with 0 in the middle.
// Second tier because it starts and stops every kind of server; the suite asks the same of healthy ones (closing).
import assert from 'node:assert/strict'
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { after, describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'
import type { ChildClient } from 'holdfast/conformance'
import type { EndsTask, Step } from '../drivers/support/ends-child.js'
import { leakCheck } from '../support/leaks.js'
import { startConsul } from '../support/servers/consul.js'
import { startEtcd } from '../support/servers/etcd.js'
import { startMysql } from '../support/servers/mysql.js'
import { startPostgres } from '../support/servers/postgres.js'
import { startMany, startRedis } from '../support/servers/redis.js'
import { startZookeeper } from '../support/servers/zookeeper.js'

/** A store that was started, and dies for good with `stop`. */
interface Store {
  stop(): Promise<void>
  /** What a child takes part with, by client and strategy. */
  readonly takers: Readonly<Record<string, ChildClient>>
}

const childClient = (driver: string, ...args: unknown[]): ChildClient => ({
  module: new URL(`../drivers/${driver}/support/in-child.js`, import.meta.url).href,
  export: 'make',
  args,
})

const stores: Readonly<Record<string, () => Promise<Store>>> = {
  async postgres() {
    const { port, stop } = await startPostgres()
    const takers = {
      'pg, row': childClient('postgres', 'pg', port, { strategy: 'row' }),
      'pg, session': childClient('postgres', 'pg', port, { strategy: 'session' }),
      'postgres.js, row': childClient('postgres', 'postgres.js', port, { strategy: 'row' }),
    }
    return { stop, takers }
  },
  async mysql() {
    const { port, stop } = await startMysql()
    const takers = {
      'mysql2, row': childClient('mysql', 'mysql2', port, {}),
      'mysql2, session': childClient('mysql', 'mysql2', port, { strategy: 'session' }),
      'mariadb, row': childClient('mysql', 'mariadb', port, {}),
    }
    return { stop, takers }
  },
  async redis() {
    const { port, stop } = await startRedis()
    const takers = {
      ioredis: childClient('redis', 'ioredis', { is: 'single', port }),
      'node-redis': childClient('redis', 'node-redis', { is: 'single', port }),
    }
    return { stop, takers }
  },
  async redlock() {
    const { servers, stop } = await startMany(3)
    const ports = servers.map(({ port }) => port)
    return { stop, takers: { ioredis: childClient('redlock', 'ioredis', ports) } }
  },
  async etcd() {
    const { url, stop } = await startEtcd()
    return { stop, takers: { etcd: childClient('etcd', [url]) } }
  },
  async consul() {
    const { url, stop } = await startConsul()
    return { stop, takers: { consul: childClient('consul', [url]) } }
  },
  async zookeeper() {
    const { address, stop } = await startZookeeper()
    return { stop, takers: { zookeeper: childClient('zookeeper', { servers: address }) } }
  },
}

const ways: readonly (readonly Step[])[] = [
  ['close'],
  ['release', 'close'],
  ['wait', 'close'],
  ['try', 'close'],
  ['inspect', 'extend', 'close'],
]

describe('a process that awaits what a dead store does not answer', { concurrency: 3 }, () => {
  for (const [store, start] of Object.entries(stores)) {
    it(`stays until it has the error: ${store}`, { timeout: 120_000 }, async () => {
      const { stop, takers } = await start()
      const children = await Promise.all(
        Object.entries(takers).flatMap(([client, childClient]) =>
          ways.map(async (steps, i) => ({
            client,
            steps,
            ...(await ender({ childClient, name: `${client} ${i}`, steps })),
          })),
        ),
      )
      await stop()
      await Promise.all(
        children.map(async ({ client, steps, goOn }) => {
          const code = await goOn()
          assert.equal(code, 0, `${client}: ended while it awaited ${steps[code - 10] ?? 'something'}`)
        }),
      )
    })
  }
})

/** Resolves once it holds. `goOn`: now its store is dead; resolves with its exit code. */
async function ender(task: EndsTask): Promise<{ goOn(): Promise<number> }> {
  const file = fileURLToPath(new URL('../drivers/support/ends-child.js', import.meta.url))
  const child = fork(file, [JSON.stringify(task)], {
    execArgv: [],
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  })
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
