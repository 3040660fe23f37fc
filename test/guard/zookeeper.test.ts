// The guard over a ZooKeeper client. The driver's own session acts as the user's client: it is a real one, on a real server.
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { BackendError, StaleTokenError } from 'holdfast'
import { guardedMulti, type ZookeeperGuardClient, type ZookeeperOperation } from 'holdfast/guard'
import { proveGuard } from 'holdfast/guard/testing'
import { systemClock } from '../../src/core/clock.js'
import { createSession } from '../../src/drivers/zookeeper/session/create-session.js'
import type { Reader, Writer } from '../../src/drivers/zookeeper/session/jute.js'
import { codes, getData, type Request, ZookeeperError } from '../../src/drivers/zookeeper/session/protocol.js'
import type { Session } from '../../src/drivers/zookeeper/session/session.js'
import { leakCheck } from '../support/leaks.js'
import { startProxy } from '../support/proxy.js'
import { startZookeeper, type ZookeeperServer } from '../support/servers/zookeeper.js'
import { isNoToken } from './support/no-tokens.js'

const types = { create: 1, delete: 2, setData: 5, check: 13 } as const

/** Resolves with the code of the first operation that failed; 0: all were carried out. */
function multi(operations: readonly ZookeeperOperation[]): Request<number> {
  return {
    op: 14,
    write: (to) => {
      for (const operation of operations)
        writeOperation(to.int(types[operation.type]).bool(false).int(-1), operation)
      to.int(-1).bool(true).int(-1)
    },
    read: firstError,
  }
}

function writeOperation(to: Writer, operation: ZookeeperOperation): void {
  to.text(operation.path)
  if ('data' in operation) to.bytes(Buffer.from(operation.data))
  if (operation.type === 'create') to.int(1).int(31).text('world').text('anyone').int(0)
  else to.int(operation.version)
}

function firstError(from: Reader): number {
  let found = 0
  for (;;) {
    const type = from.int()
    const done = from.bool()
    from.int()
    if (done) return found
    if (type === types.create) from.text()
    // A stat is 68 bytes.
    if (type === types.setData) for (let i = 0; i < 17; i++) from.int()
    if (type === -1) found ||= from.int()
  }
}

function readVersioned(path: string): Request<{ data: Buffer; version: number }> {
  const plain = getData(path)
  return {
    ...plain,
    read: (from) => {
      const data = from.bytes()
      for (let i = 0; i < 4; i++) from.long()
      return { data, version: from.int() }
    },
  }
}

const clientOf = (session: Session): ZookeeperGuardClient => ({
  async read(path) {
    try {
      return await session.call(readVersioned(path))
    } catch (error) {
      if (error instanceof ZookeeperError && error.code === codes.noNode) return undefined
      throw error
    }
  },
  async multi(operations) {
    const code = await session.call(multi(operations))
    // -103: another version, -110: it is there already.
    if (code === -103 || code === -110) return false
    if (code !== 0) throw new Error(`multi failed with ${code}`)
    return true
  },
})

describe('the guard in ZooKeeper', () => {
  let server: ZookeeperServer
  before(async () => {
    server = await startZookeeper()
  })
  after(() => server.stop())

  const open = async (port = server.port): Promise<Session> => {
    const settings = {
      servers: [{ host: server.host, port }],
      sessionTimeout: 10_000,
      tickTime: 500,
      auth: [],
    }
    const none = () => undefined
    const session = createSession(settings, systemClock(), Math.random, {
      onResumed: none,
      onSuspended: none,
      onFailure: none,
      onExpired: none,
    })
    await session.ready(new AbortController().signal)
    return session
  }

  const resource =
    (
      write: (
        client: ZookeeperGuardClient,
        id: string,
      ) => (value: string, fence: { name: string; token: number }) => Promise<void>,
    ) =>
    async (id: string) => {
      const session = await open()
      const client = clientOf(session)
      await client.multi([{ type: 'create', path: `/${id}`, data: '' }])
      return {
        write: write(client, id),
        read: async () => String((await client.read(`/${id}`))?.data) || undefined,
        close: () => session.close(),
      }
    }

  test('the kit proves it', async () => {
    const guarded = resource(
      (client, id) => (data, fence) =>
        guardedMulti(client, {
          fence,
          fencePath: `/${id}-fence`,
          operations: [{ type: 'setData', path: `/${id}`, data, version: -1 }],
          attempts: 20,
        }),
    )
    const { refused } = await proveGuard(guarded, { rounds: 20 })
    assert.ok(refused > 0)
  })

  test('a multi whose reply is lost may or may not be carried out; a refusal is thrown as it came', async () => {
    await using proxy = await startProxy({ port: server.port })
    const [session, direct] = [await open(proxy.port), await open()]
    const write = (path: string) =>
      guardedMulti(clientOf(session), {
        fence: { name: 'stock', token: 5 },
        fencePath: '/lost-fence',
        operations: [{ type: 'create', path, data: 'x' }],
      })
    proxy.down.hold()
    const lost = write('/lost').catch((error: unknown) => error)
    for (;;) {
      await proxy.down.holding()
      if ((await clientOf(direct).read('/lost')) !== undefined) break
      proxy.down.letGo(1)
    }
    proxy.reset()
    proxy.down.pass()
    const error = await lost
    assert.ok(error instanceof BackendError, String(error))
    const { code, outcome, driver, cause } = error
    assert.deepEqual(
      { code, outcome, driver },
      { code: 'UNAVAILABLE', outcome: 'unknown', driver: 'zookeeper' },
    )
    assert.ok(cause instanceof ZookeeperError)
    await session.ready(new AbortController().signal)
    await assert.rejects(write('/no/parent'), { name: 'Error', message: 'multi failed with -101' })
    for (const one of [session, direct]) await one.close()
  })

  test('a fence node that has no token lets nobody in', async () => {
    const session = await open()
    const client = clientOf(session)
    for (const path of ['/emptied', '/emptied-fence'])
      await client.multi([{ type: 'create', path, data: '' }])
    const write = () =>
      guardedMulti(client, {
        fence: { name: 'a', token: 5 },
        fencePath: '/emptied-fence',
        operations: [{ type: 'setData', path: '/emptied', data: 'written', version: -1 }],
      })
    const found = (data: string) =>
      client.multi([{ type: 'setData', path: '/emptied-fence', data, version: -1 }])
    for (const one of ['', '1e0', '9007199254740993']) {
      await found(one)
      await assert.rejects(write(), isNoToken('/emptied-fence', one))
    }
    assert.equal(String((await client.read('/emptied'))?.data), '')
    await found('0')
    await write()
    assert.equal(String((await client.read('/emptied'))?.data), 'written')
    await session.close()
  })

  test('a client may return data as any bytes, not only as a Buffer', async () => {
    const session = await open()
    const buffers = clientOf(session)
    const client: ZookeeperGuardClient = {
      ...buffers,
      async read(path) {
        const found = await buffers.read(path)
        return found && { data: Uint8Array.from(Buffer.from(found.data)), version: found.version }
      },
    }
    const write = (token: number) =>
      guardedMulti(client, { fence: { name: 'a', token }, fencePath: '/bytes-fence', operations: [] })
    for (const token of [9, 10, 1_234]) await write(token)
    await assert.rejects(write(1_233), { code: 'STALE_TOKEN', newest: 1_234 })
    await session.close()
  })

  test('and catches one that looks before it writes', async () => {
    const careless = resource((client, id) => async (data, { name, token }) => {
      const newest = Number(String((await client.read(`/${id}-fence`))?.data ?? 0))
      if (newest > token) throw new StaleTokenError(name, token, newest)
      await client.multi([{ type: 'create', path: `/${id}-fence`, data: '' }])
      await client.multi([
        { type: 'setData', path: `/${id}-fence`, data: String(token), version: -1 },
        { type: 'setData', path: `/${id}`, data, version: -1 },
      ])
    })
    await assert.rejects(proveGuard(careless, { rounds: 20 }), {
      rule: 'the newest token wins when all write at once',
    })
  })
})

after(leakCheck)
