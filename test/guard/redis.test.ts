import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { createLocks, StaleTokenError } from 'holdfast'
import {
  fenceKey,
  guardedCommands,
  guardedSet,
  memoryFences,
  type RedisGuardClient,
  redisFences,
} from 'holdfast/guard'
import { proveGuard } from 'holdfast/guard/testing'
import { memory } from 'holdfast/memory'
import { Cluster, Redis } from 'ioredis'
import { createClient, RESP_TYPES } from 'redis'
import { leakCheck } from '../support/leaks.js'
import { type RedisServer, startRedis } from '../support/servers/redis.js'
import { type ClusterSetup, startCluster } from '../support/servers/redis-cluster.js'
import { isNoToken, noTokens } from './support/no-tokens.js'

/** Without the marker that says whether the server has forgotten something. */
const keysOf = async (client: Redis) => (await client.keys('*')).filter((key) => key !== 'hf:boot').sort()

describe('the guard in Redis', () => {
  let server: RedisServer
  before(async () => {
    server = await startRedis()
  })
  after(() => server.stop())

  test('ioredis: the kit proves it', async () => {
    const { refused } = await proveGuard((id) => {
      const client = new Redis(server.url)
      return {
        write: (value, fence) => guardedSet(client, { key: id, value, fence }),
        read: async () => (await client.get(id)) ?? undefined,
        close: () => client.disconnect(),
      }
    })
    assert.ok(refused > 0)
  })

  test('node-redis: the kit proves it', async () => {
    await proveGuard(async (id) => {
      const client = createClient({ url: server.url })
      await client.connect()
      return {
        write: (value, fence) => guardedSet(client as RedisGuardClient, { key: id, value, fence }),
        read: async () => (await client.get(id)) ?? undefined,
        close: () => client.destroy(),
      }
    })
  })

  test('and catches one that looks before it writes', async () => {
    const broken = proveGuard((id) => {
      const client = new Redis(server.url)
      return {
        async write(value, { name, token }) {
          const newest = Number(await client.get(`${id}:fence`))
          if (newest > token) throw new StaleTokenError(name, token, newest)
          await client.mset(id, value, `${id}:fence`, token)
        },
        read: async () => (await client.get(id)) ?? undefined,
        close: () => client.disconnect(),
      }
    })
    await assert.rejects(broken, { rule: 'the newest token wins when all write at once' })
  })

  test('a value that is neither text nor a finite number is refused by name, and nothing is written', async () => {
    const client = new Redis(server.url)
    await client.set('kept', 'before')
    const fence = { name: 'kept', token: 5 }
    const at = { fence, fenceKey: fenceKey('kept'), keys: ['kept'] }
    for (const value of [
      undefined,
      null,
      {},
      [1],
      true,
      Symbol('x'),
      () => 1,
      new Date(0),
      Buffer.from('x'),
    ]) {
      const error = {
        name: 'TypeError',
        message: /^(?:value|a word of command 1) is .*give a string or a number/,
      }
      await assert.rejects(guardedSet(client, { key: 'kept', value: value as never, fence }), error)
      await assert.rejects(
        guardedCommands(client, { ...at, commands: [['SET', 'kept', value as never]] }),
        error,
      )
    }
    for (const value of [Number.NaN, Number.POSITIVE_INFINITY]) {
      const error = {
        name: 'RangeError',
        message: /^(?:value|a word of command 1) is .*give a finite number/,
      }
      await assert.rejects(guardedSet(client, { key: 'kept', value, fence }), error)
      await assert.rejects(guardedCommands(client, { ...at, commands: [['SET', 'kept', value]] }), error)
    }
    assert.equal(await client.get('kept'), 'before')
    assert.equal(await client.get(fenceKey('kept')), null)
    for (const value of ['', 'a\0b', 1e21, -0.5]) {
      await guardedSet(client, { key: 'kept', value, fence })
      assert.equal(await client.get('kept'), String(value))
    }
    client.disconnect()
  })

  test('several commands are run in one step, with their replies, or none of them', async () => {
    const client = new Redis(server.url)
    const at = (token: number) => ({
      fence: { name: 'stock', token },
      fenceKey: 'stock:fence',
      keys: ['stock', 'log'],
    })
    const first = await guardedCommands(client, {
      ...at(5),
      commands: [
        ['SET', 'stock', 10],
        ['DECRBY', 'stock', 3],
        ['RPUSH', 'log', 'sold 3', ''],
      ],
    })
    assert.deepEqual(first, ['OK', 7, 2])
    await assert.rejects(guardedCommands(client, { ...at(4), commands: [['DECR', 'stock']] }), {
      code: 'STALE_TOKEN',
      lock: 'stock',
      token: 4,
      newest: 5,
    })
    assert.equal(await client.get('stock'), '7')
    client.disconnect()
  })

  test('a lease that is known to be lost is refused before anything is sent', async () => {
    const client = new Redis(server.url, { lazyConnect: true })
    await using locks = createLocks(memory())
    const lease = await locks.mutex('a').acquire()
    await lease.release()
    await assert.rejects(guardedSet(client, { key: 'a', value: 1, fence: lease }), { code: 'LEASE_LOST' })
    assert.equal(client.status, 'wait')
    client.disconnect()
  })

  test('a fence that has no token lets nobody in', async () => {
    const client = new Redis(server.url)
    const write = () => guardedSet(client, { key: 'emptied', value: 1, fence: { name: 'a', token: 5 } })
    for (const found of ['', ...noTokens]) {
      await client.set('{emptied}:fence', found)
      await assert.rejects(write(), isNoToken('"{emptied}:fence"', found))
    }
    assert.equal(await client.get('emptied'), null)
    await client.set('{emptied}:fence', '0')
    await write()
    assert.equal(await client.get('{emptied}:fence'), '5')
    client.disconnect()
  })

  test('a stale token is reported with the newest, also by a client that returns texts as Buffers', async () => {
    const client = createClient({ url: server.url })
    await client.connect()
    const buffers = client.withTypeMapping({
      [RESP_TYPES.BLOB_STRING]: Buffer,
    }) as unknown as RedisGuardClient
    const write = (token: number) => guardedSet(buffers, { key: 'b', value: 1, fence: { name: 'a', token } })
    await write(7)
    await assert.rejects(write(6), { code: 'STALE_TOKEN', newest: 7 })
    client.destroy()
  })

  test('redisFences and memoryFences let nobody in who is older than the newest', async () => {
    const client = new Redis(server.url)
    for (const fences of [redisFences(client), memoryFences()]) {
      const admit = (token: number, name = 'door') => fences.admit({ name, token })
      await admit(2)
      await admit(2)
      await assert.rejects(admit(1), StaleTokenError)
      await admit(1, 'another door')
      await admit(3)
    }
    client.disconnect()
  })
})

test('a client that puts a prefix before keys puts it before the fence and the value, or is refused', async () => {
  const server = await startRedis()
  const plain = new Redis(server.url)
  const client = new Redis(server.url, { keyPrefix: 'app:' })
  const fence = (token: number) => ({ name: 'n', token })
  await guardedSet(client, { key: 'a', value: 'v', fence: fence(5) })
  assert.equal(await client.get('a'), 'v')
  assert.deepEqual(await keysOf(plain), ['app:a', 'app:{a}:fence'])
  await assert.rejects(guardedSet(client, { key: 'a', value: 'old', fence: fence(4) }), StaleTokenError)
  await redisFences(client).admit(fence(2))
  await assert.rejects(redisFences(client).admit(fence(1)), StaleTokenError)
  const commands = [['SET', 'a', 'x']]
  await assert.rejects(
    guardedCommands(client, { fence: fence(6), fenceKey: 'f', keys: ['a'], commands }),
    /writes "app:f" where "f" was asked for \(keyPrefix\?\)/,
  )
  assert.deepEqual(await keysOf(plain), ['app:a', 'app:holdfast:fence:n', 'app:{a}:fence'])
  for (const one of [plain, client]) one.disconnect()
  await server.stop()
})

test('no key that a stranger chooses is the fence of another key', async () => {
  const keys = ['a', '{a}', 'a{a}', '{a}b', '{{a}', 'fence:a', 'a:fence', 'fence:', '{', '{}'.slice(0, 1)]
  const fences = new Set(keys.map((key) => fenceKey(key)))
  assert.equal(fences.size, new Set(keys).size)
  for (const key of fences) assert.throws(() => fenceKey(key), /is named as the fence of another key/, key)
  const client = new Redis({ lazyConnect: true })
  const fence = { name: 'n', token: 1 }
  await assert.rejects(guardedSet(client, { key: '{a}:fence', value: '0', fence }), /fence of another key/)
  const all = { fence, fenceKey: '{a}:fence', keys: ['{a}:fence'], commands: [['SET', '{a}:fence', '0']] }
  await assert.rejects(guardedCommands(client, all), /keys has the fence key/)
  await assert.rejects(guardedSet(client, { key: 'a', fenceKey: 'a', value: '0', fence }), /cannot keep both/)
  client.disconnect()
})

test('in a Cluster value and fence share a slot', async () => {
  const cluster: ClusterSetup = await startCluster()
  const client = new Cluster([...cluster.addresses])
  for (const key of ['a', 'stock:{7}', 'b{', 'x'.repeat(50)]) {
    await guardedSet(client, { key, value: 'v', fence: { name: 'n', token: 7 } })
    assert.equal(await client.get(fenceKey(key)), '7')
    await assert.rejects(
      guardedSet(client, { key, value: 'old', fence: { name: 'n', token: 6 } }),
      StaleTokenError,
    )
  }
  client.disconnect()
  await cluster.stop()
})

test('a key whose braces leave no room needs a fence key of its own', () => {
  assert.throws(() => fenceKey('a}b'), /no fence key shares the slot of "a}b"/)
  assert.throws(() => fenceKey('{}a'), RangeError)
})

after(leakCheck)
