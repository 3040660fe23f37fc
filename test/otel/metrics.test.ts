import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { after, test } from 'node:test'
import { createLocks } from 'holdfast'
import { memory } from 'holdfast/memory'
import { telemetry } from 'holdfast/otel'
import { redis } from 'holdfast/redis'
import { Redis } from 'ioredis'
import { BackendError } from '../../src/core/errors.js'
import { root } from '../support/checkout.js'
import { settle } from '../support/fake-clock.js'
import { leakCheck } from '../support/leaks.js'
import { script } from '../support/scripted-driver.js'
import { startRedis } from '../support/servers/redis.js'
import { until } from '../support/until.js'
import { pointOf, startSdk } from './support/sdk.js'

after(leakCheck)

const outcome = (value: string) => ({ 'holdfast.outcome': value })

test('acquisitions are counted by outcome, waits and holds are measured in seconds', async () => {
  await using sdk = startSdk()
  await using locks = createLocks(memory())
  const { observe, stop } = telemetry(sdk.api)
  observe(locks)
  const lease = await locks.mutex('m').acquire()
  assert.equal(await locks.mutex('m').tryAcquire(), undefined)
  await assert.rejects(locks.mutex('m').acquire({ wait: 20 }), { code: 'ACQUIRE_TIMEOUT' })
  const gone = new AbortController()
  const aborted = locks.mutex('m').acquire({ signal: gone.signal })
  gone.abort(new Error('gone'))
  await assert.rejects(aborted, /gone/)
  const waiting = locks.mutex('m').acquire()
  const during = await sdk.collect()
  await lease.release()
  await (await waiting).release()
  const metrics = await sdk.collect()

  assert.equal(pointOf(during, 'holdfast.held'), 1)
  assert.equal(pointOf(during, 'holdfast.waiting'), 1)
  assert.equal(pointOf(metrics, 'holdfast.held'), 0)
  assert.equal(pointOf(metrics, 'holdfast.waiting'), 0)
  for (const [key, count] of Object.entries({ granted: 2, busy: 1, timeout: 1, aborted: 1, failed: 0 }))
    assert.equal(pointOf(metrics, 'holdfast.acquisitions', outcome(key)), count, key)
  assert.equal(pointOf(metrics, 'holdfast.handoffs', { 'holdfast.handoff': 'local' }), 1)
  assert.equal(pointOf(metrics, 'holdfast.wait.duration', outcome('granted')), 2)
  assert.equal(pointOf(metrics, 'holdfast.hold.duration', { 'holdfast.end': 'released' }), 2)
  const [wait] =
    metrics
      .get('holdfast.wait.duration')
      ?.filter(({ attributes }) => attributes['holdfast.outcome'] === 'timeout') ?? []
  assert.ok(typeof wait?.value === 'object')
  assert.ok((wait.value.sum ?? 0) >= 0.019 && (wait.value.sum ?? 0) < 10, `waited ${wait.value.sum} s`)
  assert.deepEqual(wait.value.buckets.boundaries.slice(0, 3), [0.0001, 0.0005, 0.001])
  stop()
})

test('names become attributes only as groups, and no more than 200 of them', async () => {
  await using sdk = startSdk()
  await using locks = createLocks(memory())
  const plain = telemetry(sdk.api, { spans: false })
  plain.observe(locks)
  await locks.mutex('account:1').run(() => undefined)
  const text = JSON.stringify([...(await sdk.collect())])
  assert.ok(!text.includes('account'), 'no name without a group')
  plain.stop()

  const grouped = telemetry(sdk.api, { group: (name) => name, spans: false })
  grouped.observe(locks)
  for (let i = 0; i < 300; i++) await locks.mutex(`account:${i}`).run(() => undefined)
  const granted = (await sdk.collect())
    .get('holdfast.acquisitions')
    ?.filter(({ attributes }) => attributes['holdfast.outcome'] === 'granted')
  const groups = new Set(granted?.map(({ attributes }) => attributes['holdfast.lock.group']))
  assert.ok(groups.size <= 202, `${groups.size} groups`)
  const others = granted?.find(({ attributes }) => attributes['holdfast.lock.group'] === 'other')
  assert.equal(others?.value, 100)
  grouped.stop()
})

test('observations that have ended leave their counts, and share the 200 groups', async () => {
  await using sdk = startSdk()
  const { observe, stop } = telemetry(sdk.api, { group: (name) => name, spans: false })
  for (let i = 0; i < 250; i++) {
    await using locks = createLocks(memory())
    const off = observe(locks)
    await locks.mutex(`group ${i}`).run(() => undefined)
    off()
  }
  const metrics = await sdk.collect()
  const granted = metrics
    .get('holdfast.acquisitions')
    ?.filter(({ attributes }) => attributes['holdfast.outcome'] === 'granted')
  assert.equal(granted?.length, 201)
  assert.equal(
    granted.reduce((sum, { value }) => sum + Number(value), 0),
    250,
    'counters stay',
  )
  assert.equal(pointOf(metrics, 'holdfast.held', { 'holdfast.lock.group': 'group 0' }), 0)
  stop()
})

test('observed locks that are closed can be collected', () => {
  // In a process of its own: here Node's runner keeps what its tests have awaited.
  const program = `
    import { createLocks } from 'holdfast'
    import { memory } from 'holdfast/memory'
    import { telemetry } from 'holdfast/otel'
    import { startSdk } from './build/test/otel/support/sdk.js'
    const { observe } = telemetry(startSdk().api, { group: (name) => name, spans: false })
    const ended = []
    async function one(i) {
      const locks = createLocks(memory())
      const off = observe(locks)
      await locks.mutex('group ' + i).run(() => undefined)
      off()
      await locks.close()
      ended.push(new WeakRef(locks))
    }
    for (let i = 0; i < 250; i++) await one(i)
    await new Promise((resolve) => setTimeout(resolve, 100))
    gc()
    console.log(ended.filter((locks) => locks.deref() !== undefined).length)
    process.exit()`
  const args = ['--expose-gc', '--input-type=module', '-e', program]
  const { stdout, stderr } = spawnSync(process.execPath, args, { cwd: root, encoding: 'utf8' })
  assert.ok(stdout !== '' && Number(stdout) < 10, `${stdout} of 250 are left ${stderr}`)
})

test('doubtful and lost leases, late renewals and errors of the store are counted', async () => {
  await using sdk = startSdk()
  const s = script()
  const { observe, stop } = telemetry(sdk.api)
  observe(s.locks)
  const acquiring = s.locks.mutex('m').acquire({ ttl: 3_000 })
  await settle()
  const grant = s.asked[0]!.grant()
  const lease = await acquiring
  await s.clock.advance(1_000)
  grant.renewals[0]!.fail(new BackendError('scripted', 'refused'))
  await settle()
  const doubtful = await sdk.collect()
  assert.equal(pointOf(doubtful, 'holdfast.doubtful'), 1)
  assert.equal(pointOf(doubtful, 'holdfast.renewals.late'), 1)
  const refused = { 'holdfast.operation': 'renew', 'error.type': 'BACKEND' }
  assert.equal(pointOf(doubtful, 'holdfast.store.errors', refused), 1)
  await s.clock.advance(200)
  grant.renewals[1]!.ok()
  await settle()
  const renewed = await sdk.collect()
  assert.equal(pointOf(renewed, 'holdfast.doubtful'), 0)
  assert.equal(pointOf(renewed, 'holdfast.renewals'), 1)
  await s.clock.advance(4_000)
  assert.equal(lease.state, 'lost')
  await settle()
  const lost = await sdk.collect()
  assert.equal(pointOf(lost, 'holdfast.lost', { 'holdfast.cause': 'expired' }), 1)
  assert.equal(pointOf(lost, 'holdfast.held'), 0)
  assert.equal(pointOf(lost, 'holdfast.hold.duration', { 'holdfast.end': 'lost' }), 1)
  stop()
})

test('a quarantine shows until the store grants again', async () => {
  await using sdk = startSdk()
  const s = script()
  const { observe, stop } = telemetry(sdk.api)
  observe(s.locks)
  const acquiring = s.locks.mutex('m').acquire()
  await settle()
  s.asked[0]!.wait.report?.({ error: new BackendError('scripted', 'quarantine', { quarantined: true }) })
  const barred = await sdk.collect()
  assert.equal(pointOf(barred, 'holdfast.store.quarantined'), 1)
  assert.equal(pointOf(barred, 'holdfast.store.errors', { 'error.type': 'QUARANTINE' }), 1)
  s.asked[0]!.grant()
  await (await acquiring).release()
  assert.equal(pointOf(await sdk.collect(), 'holdfast.store.quarantined'), 0)
  stop()
})

test('redis: a hand-over between processes is remote, and the queue has a length', async () => {
  await using sdk = startSdk()
  await using server = await startRedis()
  const clients = [1, 2].map(() => new Redis(server.url))
  const [a, b] = clients.map((client) => createLocks(redis({ client })))
  assert.ok(a && b)
  const { observe, stop } = telemetry(sdk.api, { group: (name) => name.split(':')[0] ?? name })
  const ends = [observe(a), observe(b)]
  const lease = await a.mutex('m:1').acquire()
  const waiting = b.mutex('m:1').acquire()
  await until(async () => (pointOf(await sdk.collect(), 'holdfast.queue.length') ?? 0) > 0)
  const during = await sdk.collect()
  assert.equal(pointOf(during, 'holdfast.held', { 'holdfast.lock.group': 'm' }), 1, 'the sum of both')
  assert.equal(pointOf(during, 'holdfast.waiting', { 'holdfast.lock.group': 'm' }), 1)
  await lease.release()
  await (await waiting).release()
  const metrics = await sdk.collect()
  assert.equal(pointOf(metrics, 'holdfast.handoffs', { 'holdfast.handoff': 'remote' }), 1)
  assert.equal(pointOf(metrics, 'holdfast.queue.length'), 0)
  for (const end of ends) end()
  assert.equal(pointOf(await sdk.collect(), 'holdfast.acquisitions', outcome('granted')), 2, 'counters stay')
  stop()
  await Promise.all([a.close(), b.close()])
  for (const client of clients) client.disconnect()
})

test('a wrong module and unknown options are refused', () => {
  assert.throws(() => telemetry({} as never), /import \* as api from '@opentelemetry\/api'/)
  assert.throws(
    () => telemetry({ metrics: {}, trace: {}, context: {} } as never, { grup: 1 } as never),
    /unknown option 'grup'/,
  )
})
