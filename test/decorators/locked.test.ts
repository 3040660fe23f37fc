import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { createLocks } from 'holdfast'
import { currentLease, locked, runLocked } from 'holdfast/decorators'
import { memory } from 'holdfast/memory'
import { leakCheck } from '../support/leaks.js'

const locks = createLocks(memory())
after(() => locks.close())

const later = () => new Promise((resolve) => setTimeout(resolve, 2))

class Accounts {
  inside = 0
  most = 0
  readonly names: string[] = []

  @locked(locks, (id: number) => `account:${id}`)
  async redeem(id: number, points: number): Promise<string> {
    this.most = Math.max(this.most, ++this.inside)
    await later()
    this.inside--
    return `${currentLease()?.name} ${points} of ${id}`
  }

  @locked(locks, 'report', { whenHeld: 'skip' })
  async report(): Promise<string | undefined> {
    await later()
    return 'written'
  }

  @locked(locks, 'report', { whenHeld: 'skip' })
  async failing(): Promise<void> {
    await locks.mutex('other').acquire({ wait: 0 })
  }

  @locked((self) => (self as Accounts).mine, 'outer')
  async outer(): Promise<string> {
    return this.inner()
  }

  @locked((self) => (self as Accounts).mine, 'outer', { reentrant: true })
  async inner(): Promise<string> {
    return 'inner'
  }

  @locked(locks, 'twice')
  async twice(): Promise<void> {
    return this.twice()
  }

  get mine(): typeof locks {
    return locks
  }
}

test('calls of one name run one at a time, in the order of their arguments, with this and their lease', async () => {
  const accounts = new Accounts()
  const answers = await Promise.all([1, 2, 3].map((points) => accounts.redeem(42, points)))
  assert.deepEqual(answers, ['account:42 1 of 42', 'account:42 2 of 42', 'account:42 3 of 42'])
  assert.equal(accounts.most, 1)
  await Promise.all([accounts.redeem(1, 1), accounts.redeem(2, 1)])
  assert.equal(accounts.most, 2)
  assert.equal(currentLease(), undefined)
  assert.equal(accounts.redeem.name, 'redeem')
})

test('whenHeld: skip runs it once and resolves with undefined for the others', async () => {
  const accounts = new Accounts()
  assert.deepEqual(await Promise.all([accounts.report(), accounts.report()]), ['written', undefined])
})

test('a time-out of the method itself does not count as a skip', async () => {
  await using _ = await locks.mutex('other').acquire()
  await assert.rejects(new Accounts().failing(), { code: 'ACQUIRE_TIMEOUT', lock: 'other' })
})

test('a locked method may enter the same lock again only when it says so', async () => {
  assert.equal(await new Accounts().outer(), 'inner')
  await assert.rejects(new Accounts().twice(), { code: 'DEADLOCK' })
})

test('the older kind of decorator does the same', async () => {
  class Old {
    async work(id: number): Promise<string | undefined> {
      return `${currentLease()?.name} ${id}`
    }
  }
  const descriptor = Object.getOwnPropertyDescriptor(Old.prototype, 'work')!
  locked(locks, (id: number) => `old:${id}`)(Old.prototype, 'work', descriptor)
  Object.defineProperty(Old.prototype, 'work', descriptor)
  assert.equal(await new Old().work(7), 'old:7 7')
})

test('runLocked tells the lease of the innermost call', async () => {
  await runLocked(locks.mutex('a'), async () => {
    await runLocked(locks.mutex('b'), async () => assert.equal(currentLease()?.name, 'b'))
    assert.equal(currentLease()?.name, 'a')
  })
})

test('bad options are reported when the class is made', () => {
  assert.throws(
    () => locked(locks, 'a', { whenHeld: 'later' as never }),
    /whenHeld must be 'wait' or 'skip', got "later"/,
  )
  assert.throws(() => locked(locks, 'a', { whenHeld: 'skip', wait: 5 }), /takes no wait/)
  const decorate = locked(locks, 'a') as unknown as (...args: unknown[]) => unknown
  assert.throws(() => decorate(undefined, {}), /decorates methods/)
})

after(leakCheck)
