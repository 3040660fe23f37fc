// Locks that are closed in the middle of an outage, by clients that queue no commands: what their waits left behind on the server is
// ended as soon as it can be asked again. A server that stays away does not keep `close()` for long.
import assert from 'node:assert/strict'
import type { EventEmitter } from 'node:events'
import { after, type TestContext, test } from 'node:test'
import { Redis } from 'ioredis'
import { createClient } from 'redis'
import { createLocks, type Locks } from '../../../src/create-locks.js'
import { type RedisOptions, redis } from '../../../src/drivers/redis/index.js'
import { leakCheck } from '../../support/leaks.js'
import { startProxy, type TcpProxy } from '../../support/proxy.js'
import { startRedis } from '../../support/servers/redis.js'
import { until } from '../../support/until.js'
import { peer } from './support/peer.js'
import { type Library, quick } from './support/place.js'

const server = await startRedis()
after(() => server.stop())

const libraries = ['ioredis', 'node-redis'] as const

interface Away {
  readonly locks: Locks
  readonly cable: TcpProxy
  /** Its connections break, and no new one is accepted. */
  leave(): Promise<void>
  /** Resolves as the client tells that it can be used again. */
  comeBack(): Promise<void>
}

async function behindCable(
  t: TestContext,
  library: Library,
  options: Partial<RedisOptions> = {},
): Promise<Away> {
  const cable = await startProxy({ port: server.port })
  const { client, close } = library === 'ioredis' ? ioredisTo(cable.port) : nodeRedisTo(cable.port)
  const emitter = client as unknown as EventEmitter
  emitter.on('error', () => undefined)
  const first = once(emitter, 'ready')
  await client.connect()
  await first
  const locks = createLocks(redis({ client, ...options }))
  t.after(async () => {
    await locks.close()
    close()
    await cable.stop()
  })
  await locks.mutex('used before').run(() => undefined)
  return {
    locks,
    cable,
    async leave() {
      const gone = once(emitter, 'reconnecting')
      cable.refuse()
      cable.reset()
      await gone
    },
    async comeBack() {
      const back = once(emitter, 'ready')
      cable.heal()
      await cable.accept()
      await back
    },
  }
}

function ioredisTo(port: number) {
  const options = {
    lazyConnect: true,
    enableOfflineQueue: false,
    retryStrategy: quick,
    disconnectTimeout: 100,
  }
  const client = new Redis(port, '127.0.0.1', options as object)
  return { client, close: () => client.disconnect() }
}

function nodeRedisTo(port: number) {
  const socket = { host: '127.0.0.1', port, reconnectStrategy: quick }
  const client = createClient({ socket, disableOfflineQueue: true })
  return { client, close: () => client.destroy() }
}

/** Resolves as it happens, before anything else does. */
const once = (emitter: EventEmitter, event: string) =>
  new Promise<void>((resolve) => void emitter.once(event, () => resolve()))

/** An abort that nobody else gives as a reason. */
function abortable() {
  const [controller, reason] = [new AbortController(), new Error('given up')]
  return {
    signal: controller.signal,
    async abort(asked: Promise<unknown>): Promise<void> {
      controller.abort(reason)
      await assert.rejects(asked, (error) => error === reason)
    },
  }
}

for (const library of libraries) {
  test(`locks that are closed as the server is back leave no place in the queue (${library})`, async (t) => {
    const name = `place ${library}`
    const { locks } = peer(t, server.port)
    const away = await behindCable(t, library)
    const lease = await locks.mutex(name).acquire({ ttl: 60_000 })
    const { signal, abort } = abortable()
    const asked = away.locks.mutex(name).acquire({ wait: 60_000, signal })
    await until(async () => (await locks.inspect(name)).waiters.length === 1)
    await away.leave()
    await abort(asked)
    await away.comeBack()
    await away.locks.close()
    assert.deepEqual((await locks.inspect(name)).waiters, [])
    await lease.release()
    assert.deepEqual((await locks.inspect(name)).holders, [])
  })

  test(`locks that are closed as the server is back end a hold whose grant was lost (${library})`, async (t) => {
    const name = `hold ${library}`
    const { locks } = peer(t, server.port)
    const away = await behindCable(t, library)
    away.cable.down.hold()
    const { signal, abort } = abortable()
    const asked = away.locks.mutex(name).acquire({ ttl: 30_000, wait: 60_000, signal })
    await until(async () => (await locks.inspect(name)).holders.length === 1)
    await away.leave()
    await abort(asked)
    await away.comeBack()
    await away.locks.close()
    assert.deepEqual((await locks.inspect(name)).holders, [])
  })

  for (const how of ['refuses', 'is silent'] as const)
    test(`locks are closed while the server ${how}, though a wait is still to be ended (${library})`, async (t) => {
      const name = `${how} ${library}`
      const { locks } = peer(t, server.port)
      const away = await behindCable(t, library, { commandTimeout: 500 })
      const lease = await locks.mutex(name).acquire({ ttl: 60_000 })
      const { signal, abort } = abortable()
      const asked = away.locks.mutex(name).acquire({ wait: 60_000, signal })
      await until(async () => (await locks.inspect(name)).waiters.length === 1)
      if (how === 'refuses') await away.leave()
      else away.cable.blackHole()
      await abort(asked)
      const since = performance.now()
      await away.locks.close()
      assert.ok(performance.now() - since < 10_000)
      assert.equal((await locks.inspect(name)).waiters.length, 1, 'it cannot have been ended')
      await lease.release()
    })
}

after(leakCheck)
