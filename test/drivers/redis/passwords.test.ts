// A refused login: errors and events report it without the password. ioredis keeps the arguments of the command that failed, which
// Node prints with an error that nobody catches.
// Second tier because it asks with every version of ioredis, and waits for each to be refused.
import assert from 'node:assert/strict'
import { after, type TestContext, test } from 'node:test'
import { inspect } from 'node:util'
import type { DriverFactory } from '../../../src/core/driver.js'
import { createLocks } from '../../../src/create-locks.js'
import { redis } from '../../../src/drivers/redis/index.js'
import { redlock } from '../../../src/drivers/redlock/index.js'
import { leakCheck } from '../../support/leaks.js'
import { startRedis } from '../../support/servers/redis.js'
import { type ClientOptions, type Version, versions } from './support/versions.js'

const server = await startRedis()
after(() => server.stop())
await server.cli('ACL', 'SETUSER', 'app', 'on', '>right', '~*', '&*', '+@all')
const { port } = server
const sentinels = [{ host: '127.0.0.1', port }]

async function clientOf(t: TestContext, version: Version, group?: ClientOptions) {
  const login = { username: 'app', password: 'hunter2' }
  const place = group
    ? ({ is: 'sentinel', name: 'main', sentinels, ports: [port] } as const)
    : ({ is: 'single', port } as const)
  const { client, start, close } = await version.open(place, login, group)
  t.after(close)
  start().catch(() => undefined)
  return client
}

async function refused(t: TestContext, driver: DriverFactory): Promise<void> {
  const locks = createLocks(driver)
  t.after(() => locks.close())
  const told: unknown[] = []
  for (const event of ['waiting', 'denied', 'storeError'] as const)
    locks.on(event, (about) => void told.push(about))
  for (const asked of [
    () => locks.mutex('a').acquire({ wait: 500 }),
    () => locks.mutex('a').tryAcquire({ ttl: 1_000 }),
    () => locks.inspect('a'),
  ])
    await assert.rejects(asked, (error) => told.push(error) > 0)
  const text = inspect(told, { depth: Number.POSITIVE_INFINITY, showHidden: true })
  assert.doesNotMatch(text, /hunter2/)
}

const ofIoredis = versions.filter(({ library }) => library === 'ioredis')

for (const version of ofIoredis) {
  test(`${version.name}: a refused login is reported without the password`, async (t) => {
    await refused(t, redis({ client: await clientOf(t, version) }))
  })

  test(`${version.name}: so it is by redlock`, async (t) => {
    const clients = [await clientOf(t, version), await clientOf(t, version), await clientOf(t, version)]
    await refused(t, redlock({ clients }))
  })

  test(`${version.name}: so it is by a Sentinel`, async (t) => {
    const group = { sentinelUsername: 'app', sentinelPassword: 'hunter2' }
    await refused(t, redis({ client: await clientOf(t, version, group) }))
  })

  test(`${version.name}: so it is by a Cluster`, async (t) => {
    const login = { username: 'app', password: 'hunter2' }
    const { client, start, close } = await version.open({ is: 'cluster', ports: [port] }, login)
    t.after(close)
    start().catch(() => undefined)
    await refused(t, redis({ client, quarantine: 'off' }))
  })
}

after(leakCheck)
