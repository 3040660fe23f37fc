import assert from 'node:assert/strict'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { pathToFileURL } from 'node:url'
import {
  AcquireTimeoutError,
  BackendError,
  DeadlockError,
  HoldfastError,
  LeaseLostError,
  StaleTokenError,
  UnsupportedError,
} from '../../src/index.js'
import { settle } from '../support/fake-clock.js'
import { leakCheck } from '../support/leaks.js'
import { script } from '../support/scripted-driver.js'

after(leakCheck)

test('the life of a lease is reported by events', async () => {
  const s = script()
  const seen: string[] = []
  for (const event of ['waiting', 'granted', 'renewed', 'released'] as const)
    s.locks.on(event, ({ name }) => seen.push(`${event} ${name}`))
  const acquiring = s.locks.mutex('m').acquire({ ttl: 3_000 })
  await settle()
  s.asked[0]!.wait.report?.({ position: 1 })
  const grant = s.asked[0]!.grant()
  const lease = await acquiring
  await s.clock.advance(1_000)
  grant.renewals[0]!.ok()
  await settle()
  await lease.release()
  assert.deepEqual(seen, ['waiting m', 'granted m', 'renewed m', 'released m'])
})

test('a removed listener is not called, and one that throws affects nobody', async () => {
  const s = script()
  const warned = new Promise<Error>((resolve) => process.once('warning', resolve))
  s.locks.on('granted', () => assert.fail('off'))()
  s.locks.on('granted', () => {
    throw new Error('listener bug')
  })
  const acquiring = s.locks.mutex('m').acquire()
  await settle()
  s.asked[0]!.grant()
  await (await acquiring).release()
  assert.match((await warned).message, /a listener of 'granted' threw: Error: listener bug/)
  assert.throws(
    () => s.locks.on('grant' as never, () => {}),
    /unknown event grant; known are requested, waiting, denied, order, granted/,
  )
  assert.throws(() => s.locks.on('lost', 'log' as never), {
    name: 'TypeError',
    message: 'a listener of \'lost\' must be a function, got "log"',
  })
})

test('the same events are published on diagnostics channels', async () => {
  const s = script()
  const seen: unknown[] = []
  const listener = (message: unknown) => seen.push((message as { token: number }).token)
  subscribe('holdfast:released', listener)
  const acquiring = s.locks.mutex('m').acquire()
  await settle()
  s.asked[0]!.grant()
  await (await acquiring).release()
  unsubscribe('holdfast:released', listener)
  assert.deepEqual(seen, [100])
})

test('each error has a stable code, and instanceof tells them apart', () => {
  const errors = [
    [new AcquireTimeoutError('m', 5, undefined), 'ACQUIRE_TIMEOUT', AcquireTimeoutError],
    [new LeaseLostError('m', 1, 'expired'), 'LEASE_LOST', LeaseLostError],
    [new StaleTokenError('m', 1, 2), 'STALE_TOKEN', StaleTokenError],
    [new DeadlockError('m', 'because'), 'DEADLOCK', DeadlockError],
    [new UnsupportedError('x', 'y', 'z'), 'UNSUPPORTED', UnsupportedError],
    [new BackendError('x', 'y'), 'BACKEND', BackendError],
    [new BackendError('x', 'y', { closed: true }), 'CLOSED', BackendError],
  ] as const
  for (const [error, code, type] of errors) {
    assert.equal(error.code, code)
    assert.equal(error.name, type.name)
    assert.ok(error instanceof HoldfastError && error instanceof Error)
    for (const [, , other] of errors)
      assert.equal(error instanceof other, other === type, `${type.name} and ${other.name}`)
  }
  assert.equal(new Error('x') instanceof HoldfastError, false)
})

test('instanceof recognises an error from a second copy of the package', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-copy-'))
  t.after(() => rmSync(folder, { recursive: true }))
  cpSync(new URL('../../src/core', import.meta.url), join(folder, 'core'), { recursive: true })
  writeFileSync(join(folder, 'package.json'), '{ "type": "module" }')
  const path = pathToFileURL(join(folder, 'core/errors.js')).href
  const copy = (await import(path)) as typeof import('../../src/core/errors.js')
  assert.notEqual(copy.LeaseLostError, LeaseLostError)
  assert.notEqual(copy.HoldfastError, HoldfastError)
  const theirs = new copy.LeaseLostError('m', 1, 'taken')
  assert.ok(theirs instanceof LeaseLostError)
  assert.ok(theirs instanceof HoldfastError)
  assert.equal(theirs instanceof DeadlockError, false)
})
