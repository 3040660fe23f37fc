/** Code written for `navigator.locks` that spans processes: the import is the only difference. Two clients stand for two processes. */
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createLocks } from 'holdfast'
import { local } from 'holdfast/local'
import { type LockManager, lockManager } from 'holdfast/web-locks'

const directory = await mkdtemp(join(tmpdir(), 'holdfast-example-'))
const first = createLocks(local({ directory }))
const second = createLocks(local({ directory }))

let balance = 100
const spend = (locks: LockManager, amount: number) =>
  locks.request('balance', async (lock) => {
    const before = balance
    await new Promise((resolve) => setTimeout(resolve, 2)) // anybody else could write here
    lock.lease.assertHeld()
    balance = before - amount
  })

const here = lockManager(first, { clientId: 'here' })
const there = lockManager(second, { clientId: 'there' })
await Promise.all([1, 2, 3, 4, 5].flatMap((amount) => [spend(here, amount), spend(there, amount)]))
assert.equal(balance, 70)

await here.request('backup', async () => {
  const skipped = await there.request('backup', { ifAvailable: true }, (lock) => lock === null)
  const { held } = await there.query()
  assert.equal(skipped, true)
  assert.deepEqual(held, [{ name: 'backup', mode: 'exclusive', clientId: 'here' }])
})
console.log(`ten withdrawals by two clients: ${balance} left`)

await second.close()
await first.close()
await rm(directory, { recursive: true })
