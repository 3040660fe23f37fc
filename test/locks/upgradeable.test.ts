import assert from 'node:assert/strict'
import { getEventListeners } from 'node:events'
import { after, test } from 'node:test'
import { BackendError } from 'holdfast'
import { memory } from 'holdfast/memory'
import { createLocks, type MultiLease } from '../../src/index.js'
import { leakCheck } from '../support/leaks.js'
import { type Asked, type Script, script } from '../support/scripted-driver.js'

after(leakCheck)

/** The nth request to the driver, once the microtasks before it have run. */
async function asked({ asked }: Script, n: number): Promise<Asked> {
  await new Promise(setImmediate)
  const one = asked[n]
  assert.ok(one, `request ${n} was made`)
  return one
}

test('after a downgrade that failed nothing is held for writing, and the next upgrade asks the store', async () => {
  const on = script()
  const taking = on.locks.upgradeable('u').upgradeable()
  ;(await asked(on, 0)).grant()
  ;(await asked(on, 1)).grant()
  const lease = await taking
  const upgrading = lease.upgrade()
  ;(await asked(on, 2)).grant()
  assert.equal(await upgrading, true)
  assert.equal(lease.mode, 'write')

  const downgrading = assert.rejects(lease.downgrade(), BackendError)
  ;(await asked(on, 3)).fail(new BackendError('scripted', 'out of order'))
  await downgrading
  assert.equal(lease.mode, 'read')

  const again = lease.upgrade()
  const exclusive = await asked(on, 4)
  assert.equal(exclusive.claim.mode.kind, 'exclusive')
  exclusive.grant()
  assert.equal(await again, true)
  assert.equal(lease.mode, 'write')
  await lease.release()
  await on.locks.close()
})

test('a downgrade that failed can be tried again', async () => {
  const on = script()
  const taking = on.locks.upgradeable('u').upgradeable()
  ;(await asked(on, 0)).grant()
  ;(await asked(on, 1)).grant()
  const lease = await taking
  const upgrading = lease.upgrade()
  ;(await asked(on, 2)).grant()
  await upgrading
  const downgrading = assert.rejects(lease.downgrade(), BackendError)
  ;(await asked(on, 3)).fail(new BackendError('scripted', 'out of order'))
  await downgrading
  const again = lease.downgrade()
  const shared = await asked(on, 4)
  assert.equal(shared.claim.mode.kind, 'shared')
  shared.grant()
  await again
  assert.equal((lease as unknown as MultiLease).leases.length, 2)
  await lease.release()
  await on.locks.close()
})

test('reading the signal of an upgradeable lease again adds no listener', async () => {
  await using locks = createLocks(memory())
  const lease = await locks.upgradeable('u').upgradeable()
  const { leases } = lease as unknown as MultiLease
  const count = () => leases.map(({ signal }) => getEventListeners(signal, 'abort').length)
  const { signal } = lease
  const once = count()
  for (let n = 0; n < 20; n++) assert.equal(lease.signal, signal)
  assert.deepEqual(count(), once)
  await lease.release()
})
